// Parses the attributes of transpose, concat, split and slice, for their definitions and kernels.
#pragma once

#include <vector>

#include "kernels/ops/core/op.h"

namespace tandem::ops {

// Returns the dimension of `shape`, from 0, that the attribute axis selects. A negative axis counts
// from the last dimension. INVALID_ARGUMENT: axis is out of range.
StatusOr<int> AxisOf(const OpView& view, const Shape& shape);

// Returns the sizes of the `count` parts into which split divides dimension `axis` of X, which has
// size n. The attributes sections and num determine the sizes.
StatusOr<std::vector<int64_t>> SectionsOf(const OpView& view, int64_t n, size_t count);

// Start and shape of the part of X that slice selects.
struct Window {
  Shape begin, shape;
};
StatusOr<Window> WindowOf(const OpView& view, const Shape& x);

// Returns the permutation of transpose: dimension i of the result is dimension permutation[i] of X.
StatusOr<std::vector<int>> PermutationOf(const OpView& view, int rank);

}  // namespace tandem::ops
