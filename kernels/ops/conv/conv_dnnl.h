// Convolutions by oneDNN, in its blocked layouts, reordered on the way in and out.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem {

StatusOr<Kernel> PrepareDnnlConv(const OpView& view, const PrepareContext& ctx);
StatusOr<Kernel> PrepareDnnlConvGrad(const OpView& view, const PrepareContext& ctx);
StatusOr<Kernel> PrepareDnnlConvTranspose(const OpView& view, const PrepareContext& ctx);
StatusOr<Kernel> PrepareDnnlConvTransposeGrad(const OpView& view, const PrepareContext& ctx);

}  // namespace tandem
