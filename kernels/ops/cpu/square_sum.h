// The sum of the squares of a large tensor, for norms.
#pragma once

#include <cmath>

#include "kernels/ops/cpu/parallel.h"
#include "kernels/ops/cpu/update_loops.h"

namespace tandem::ops {

// Computes the sum of squares. The result has the same bits for any number of threads. Each block
// is summed in f32 lanes. The sums of the blocks are added in f64, in order.
class SquareSum {
 public:
  SquareSum(int64_t n, int parts) : n_(n), parts_(parts) {}

  size_t scratch_bytes() const { return static_cast<size_t>(blocks()) * sizeof(float); }
  double Run(const float* x, void* scratch) const {
    auto* sums = static_cast<float*>(scratch);
    ParallelFor(parts_, blocks(), [&](int, int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) {
        const int64_t at = b * kBlock;
        sums[b] = loops_.sum_squares(x + at, std::min(kBlock, n_ - at));
      }
    });
    double total = 0;
    for (int64_t b = 0; b < blocks(); ++b) total += sums[b];
    return total;
  }
  float Norm(const float* x, void* scratch) const {
    return static_cast<float>(std::sqrt(Run(x, scratch)));
  }

 private:
  static constexpr int64_t kBlock = 4096;
  int64_t blocks() const { return (n_ + kBlock - 1) / kBlock; }

  const UpdateLoops& loops_ = BestUpdateLoops();
  int64_t n_;
  int parts_;
};

}  // namespace tandem::ops
