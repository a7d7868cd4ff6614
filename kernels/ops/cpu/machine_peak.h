// Measures the peak performance of this machine. op_bench and profiles compare with it.
#pragma once

namespace tandem::ops {

struct MachinePeak {
  // The operations per second, and the bytes read plus bytes written per second.
  double flops = 0, bytes = 0;
  int others = 0;  // number of other threads that were running during the measurement
};

// Measures the peak with `threads` threads: f32 products by oneDNN, and copies of memory larger
// than the caches. Takes the best of many short probes per thread. Thus other processes do not
// lower the result if each thread gets a CPU from time to time. Takes about a second and 512 MiB.
MachinePeak MeasurePeak(int threads);

}  // namespace tandem::ops
