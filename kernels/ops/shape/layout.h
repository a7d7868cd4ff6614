// Where the parts of transpose, concat, split and slice lie: shared by their definitions and
// kernels.
#pragma once

#include <vector>

#include "kernels/ops/core/op.h"

namespace tandem {

// Attribute axis, from -rank on, as a dimension of `shape`.
StatusOr<int> AxisOf(const OpView& view, const Shape& shape);

// Sizes along `axis` of the `count` parts that split cuts X [..., n, ...] into, from the attributes
// sections and num.
StatusOr<std::vector<int64_t>> SectionsOf(const OpView& view, int64_t n, size_t count);

// Begin and shape of what slice takes of `x`.
struct Window {
  Shape begin, shape;
};
StatusOr<Window> WindowOf(const OpView& view, const Shape& x);

// dimensions[i] of X is dimension i of transpose's result.
StatusOr<std::vector<int>> PermutationOf(const OpView& view, int rank);

}  // namespace tandem
