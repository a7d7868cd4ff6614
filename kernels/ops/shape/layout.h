// The parts of transpose, concat, split and slice, shared by their definitions and kernels.
#pragma once

#include <vector>

#include "kernels/ops/core/op.h"

namespace tandem {

// Returns the attribute axis, which may be -rank or more, as a dimension of `shape`.
StatusOr<int> AxisOf(const OpView& view, const Shape& shape);

// Returns the sizes along `axis` of the `count` parts into which split divides X [..., n, ...],
// from the attributes sections and num.
StatusOr<std::vector<int64_t>> SectionsOf(const OpView& view, int64_t n, size_t count);

// Start and shape of the part of `x` that slice selects.
struct Window {
  Shape begin, shape;
};
StatusOr<Window> WindowOf(const OpView& view, const Shape& x);

// dimensions[i] of X becomes dimension i of the result of transpose.
StatusOr<std::vector<int>> PermutationOf(const OpView& view, int rank);

}  // namespace tandem
