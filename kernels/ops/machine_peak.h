// What this machine can do at most: the yardstick of op_bench and of profiles.
#pragma once

namespace tandem {

struct MachinePeak {
  double flops = 0, bytes = 0;  // per second; bytes are those read and those written
};

// Measured on `threads` threads: a large f32 product by oneDNN, and a copy of memory that no cache
// holds. Takes about half a second and 512 MiB.
MachinePeak MeasurePeak(int threads);

}  // namespace tandem
