// Measures the peak performance of this machine. op_bench and profiles compare the speed of kernels
// with the peak.
#pragma once

namespace tandem::ops {

struct MachinePeak {
  // flops: operations per second. bytes: bytes read plus bytes written, per second.
  double flops = 0, bytes = 0;
  int others = 0;  // number of other threads that were running during the measurement
};

// Measures the peak with `threads` threads: f32 products by oneDNN, and copies of memory larger
// than the caches. Each thread runs many short probes, and its fastest probe counts. Therefore
// other processes do not lower the result if each thread gets a CPU from time to time. The
// measurement needs about a second and 512 MiB.
MachinePeak MeasurePeak(int threads);

}  // namespace tandem::ops
