// Plain loops of fused_attention, which work on one row after another.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem::ops {

StatusOr<Kernel> PreparePlainAttention(const OpView& view, const PrepareContext& ctx);
StatusOr<Kernel> PreparePlainAttentionGrad(const OpView& view, const PrepareContext& ctx);

}  // namespace tandem::ops
