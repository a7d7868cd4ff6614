// How reduce_* sees its input.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem {

struct Reduction {
  Shape out;  // of the result
  // Whether each dimension of X is reduced.
  std::array<bool, Shape::kRankMax> reduced{};
  // X as [outer, len, inner] with len reduced, when the reduced dimensions are neighbours.
  bool neighbours = false;
  int64_t outer = 1, len = 1, inner = 1;
};

// From input 0 and the attributes dim and keep_dim.
StatusOr<Reduction> ReductionOf(const OpView& view);

}  // namespace tandem
