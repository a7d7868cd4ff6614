// Measures the maximum speed of the machine. The benchmarks report this speed beside their results.
#pragma once

namespace tandem::bench {

// Returns the maximum speed of a 1024 x 1024 x 1024 matrix product in f32 (oneDNN's sgemm), in
// GFLOP/s.
double SgemmGflops(int threads);

}  // namespace tandem::bench
