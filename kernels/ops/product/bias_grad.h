// The gradient of a bias: the sum of the rows of Out@GRAD [m, n], f32 or bf16.
#pragma once

#include "kernels/ops/core/op.h"
#include "kernels/ops/cpu/half_loops.h"
#include "kernels/ops/cpu/loops.h"

namespace tandem {

// Columns are split among the threads, and each column is summed in the order of the rows. The bits
// are therefore the same with any number of threads. Thread-safe.
class BiasGrad {
 public:
  BiasGrad(DType dtype, int64_t m, int64_t n, int threads);
  void Run(const void* grad, float* sum) const;

 private:
  const Loops& loops_;
  HalfLoops::Widen widen_;  // nullptr: f32
  int64_t m_, n_;
  int parts_;
};

}  // namespace tandem
