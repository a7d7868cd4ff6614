// Convolutions with stride 1 and few channels on the CPU. They read the padded input directly,
// without unfolding it (conv_loops.h).
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem::ops {

StatusOr<Kernel> PrepareDirectConv(const OpView& view, const PrepareContext& ctx);
StatusOr<Kernel> PrepareDirectConvGrad(const OpView& view, const PrepareContext& ctx);

}  // namespace tandem::ops
