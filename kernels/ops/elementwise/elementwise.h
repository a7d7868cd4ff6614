// How Y of an elementwise operator lies in X.
#pragma once

#include <cstdint>

#include "kernels/ops/core/op.h"

namespace tandem {

// X seen as [outer, len, inner], Y as [len]: element (o, i, j) of X meets element i of Y.
struct BroadcastShape {
  int64_t outer, len, inner;
};

struct Loops;

// gy[i] = sum over outer and inner, in this order, of g: the gradient of Y.
void SumRepeats(const Loops& loops, const BroadcastShape& s, const float* g, float* gy);

// From inputs 0 (X) and 1 (Y) and the attribute axis.
StatusOr<BroadcastShape> BroadcastShapeOf(const OpView& view);

}  // namespace tandem
