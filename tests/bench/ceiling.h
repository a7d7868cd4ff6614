// What the machine can do at most: the limits beside which figures are shown.
#pragma once

namespace tandem::bench {

// Best speed of a 1024 x 1024 x 1024 product in f32 (oneDNN's sgemm), in GFLOP/s.
double SgemmGflops(int threads);

}  // namespace tandem::bench
