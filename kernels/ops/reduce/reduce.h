// The dimensions of the reduce_* operators and of their gradients.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem::ops {

struct Reduction {
  Shape out;  // shape of the result
  // For each dimension of X: true if it is reduced.
  std::array<bool, Shape::kRankMax> reduced{};
  // If true, the reduced dimensions are adjacent. X is then viewed as [outer, len, inner], where
  // len is reduced.
  bool neighbours = false;
  int64_t outer = 1, len = 1, inner = 1;
};

// Returns the dimensions of a reduction, from input 0 and the attributes dim and keep_dim.
StatusOr<Reduction> ReductionOf(const OpView& view);

}  // namespace tandem::ops
