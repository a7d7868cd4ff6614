// The sizes of fused_attention and the layout of its tensors.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem::ops {

// The positions of the inputs of fused_attention, then those that only its gradient has.
inline constexpr int kAttentionQ = 0, kAttentionK = 1, kAttentionV = 2, kAttentionPosition = 3;
inline constexpr int kAttentionOut = 4, kAttentionLogSum = 5, kAttentionOutGrad = 6;

// The matrices of one tensor. Matrix m starts at element m / heads * outer + m % heads * inner. Its
// rows start `row` elements apart, the first one at `begin`.
struct MatrixLayout {
  int64_t heads, outer, inner, row, begin;

  int64_t At(int64_t matrix) const {
    return begin + matrix / heads * outer + matrix % heads * inner;
  }
};

// Attention of `matrices` matrices. Q is [t, dim], K is [s, dim], V is [s, width], Out is
// [t, width]. Row i attends to the first i + 1 + s - t rows of K if `causal`, otherwise to all.
struct AttentionShape {
  int64_t matrices, t, s, dim, width;
  bool packed;  // Q, K and V are parts of one tensor, which is the input Q
  bool causal;
  float alpha;
  // The layouts of the tensors. If `packed`, the offset of K and V in the input Q is in `begin`.
  MatrixLayout q, k, v, out;

  // Returns the number of rows of K to which row `i` attends.
  int64_t Kept(int64_t i) const { return causal ? i + 1 + s - t : s; }
};

// Returns the shape of fused_attention, or of its gradient, from inputs Q, K, V and the attributes.
// INVALID_ARGUMENT: the inputs do not fit together.
StatusOr<AttentionShape> AttentionShapeOf(const OpView& view);

}  // namespace tandem::ops
