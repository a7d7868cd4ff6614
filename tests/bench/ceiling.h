// Measures the maximum speed of the machine. The benchmarks show it beside their results as a
// limit.
#pragma once

namespace tandem::bench {

// Maximum speed of a 1024 x 1024 x 1024 product in f32 (oneDNN's sgemm), in GFLOP/s.
double SgemmGflops(int threads);

}  // namespace tandem::bench
