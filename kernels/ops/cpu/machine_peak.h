// What this machine can do at most: the yardstick of op_bench and of profiles.
#pragma once

namespace tandem {

struct MachinePeak {
  double flops = 0, bytes = 0;  // per second; bytes are those read and those written
  int others = 0;               // other threads that were running when it was measured
};

// Measured on `threads` threads: f32 products by oneDNN, and copies of memory that no cache holds.
// The best of many short probes of each thread: other processes do not lower it while each thread
// has a processor now and then. Takes about a second and 512 MiB.
MachinePeak MeasurePeak(int threads);

}  // namespace tandem
