// Computes the gradient of a bias: the sum of the rows of Out@GRAD [m, n], of type f32 or bf16.
#pragma once

#include "kernels/ops/core/op.h"
#include "kernels/ops/cpu/half_loops.h"
#include "kernels/ops/cpu/loops.h"

namespace tandem::ops {

// Sums the rows of a matrix. Columns are split among the threads, and each column is summed in the
// order of the rows. Therefore the bits are the same for any number of threads. Thread-safe.
class BiasGrad {
 public:
  BiasGrad(DType dtype, int64_t m, int64_t n, int threads);
  void Run(const void* grad, float* sum) const;

 private:
  const Loops& loops_;
  HalfLoops::Widen widen_;  // converts bf16 to f32; nullptr: the matrix is f32
  int64_t m_, n_;
  int parts_;
};

}  // namespace tandem::ops
