// The dimensions of reduce_* and its gradients.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem {

struct Reduction {
  Shape out;  // shape of the result
  // By dimension of X: whether it is reduced.
  std::array<bool, Shape::kRankMax> reduced{};
  // X viewed as [outer, len, inner] with len reduced. Valid if the reduced dimensions are adjacent.
  bool neighbours = false;
  int64_t outer = 1, len = 1, inner = 1;
};

// Returns the reduction from input 0 and the attributes dim and keep_dim.
StatusOr<Reduction> ReductionOf(const OpView& view);

}  // namespace tandem
