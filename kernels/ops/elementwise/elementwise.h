// How an elementwise operator broadcasts Y over X.
#pragma once

#include <cstdint>

#include "kernels/ops/core/op.h"

namespace tandem {

// X viewed as [outer, len, inner] and Y as [len]: element (o, i, j) of X is combined with element i
// of Y.
struct BroadcastShape {
  int64_t outer, len, inner;
};

struct Loops;

// gy[i] = sum of g over outer and inner, in this order. This is the gradient of Y.
void SumRepeats(const Loops& loops, const BroadcastShape& s, const float* g, float* gy);

// Returns the shape from inputs 0 (X) and 1 (Y) and the attribute axis.
StatusOr<BroadcastShape> BroadcastShapeOf(const OpView& view);

}  // namespace tandem
