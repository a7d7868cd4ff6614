// The broadcast of Y over X in elementwise operators.
#pragma once

#include <cstdint>

#include "kernels/ops/core/op.h"

namespace tandem::ops {

// The shapes of X and Y for broadcasting. X is viewed as [outer, len, inner] and Y as [len].
// Element (o, i, j) of X is combined with element i of Y.
struct BroadcastShape {
  int64_t outer, len, inner;
};

struct Loops;

// Computes the gradient of Y: gy[i] = sum of g(o, i, j) over o and j, in this order.
void SumRepeats(const Loops& loops, const BroadcastShape& s, const float* g, float* gy);

// Returns the broadcast shape of an elementwise operator, from inputs 0 (X) and 1 (Y) and the
// attribute axis.
StatusOr<BroadcastShape> BroadcastShapeOf(const OpView& view);

}  // namespace tandem::ops
