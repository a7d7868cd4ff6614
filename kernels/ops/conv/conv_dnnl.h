// Convolutions by oneDNN in its blocked layouts. Inputs and outputs are reordered where necessary.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem::ops {

StatusOr<Kernel> PrepareDnnlConv(const OpView& view, const PrepareContext& ctx);
StatusOr<Kernel> PrepareDnnlConvGrad(const OpView& view, const PrepareContext& ctx);
StatusOr<Kernel> PrepareDnnlConvTranspose(const OpView& view, const PrepareContext& ctx);
StatusOr<Kernel> PrepareDnnlConvTransposeGrad(const OpView& view, const PrepareContext& ctx);

}  // namespace tandem::ops
