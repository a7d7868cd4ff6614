// Measures the peak performance of this machine, with which op_bench and profiles compare.
#pragma once

namespace tandem {

struct MachinePeak {
  double flops = 0, bytes = 0;  // per second; bytes read plus bytes written
  int others = 0;               // other threads that were running during the measurement
};

// Measures on `threads` threads: f32 products by oneDNN, and copies of memory larger than the
// caches. Takes the best of many short probes per thread. Other processes do not lower the result
// if each thread gets a CPU from time to time. Takes about a second and 512 MiB.
MachinePeak MeasurePeak(int threads);

}  // namespace tandem
