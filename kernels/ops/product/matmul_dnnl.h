// Kernels for large matrix products, by oneDNN.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem::ops {

StatusOr<Kernel> PrepareDnnlMatmul(const OpView& view, const PrepareContext& ctx);
StatusOr<Kernel> PrepareDnnlFc(const OpView& view, const PrepareContext& ctx);
StatusOr<Kernel> PrepareDnnlFcGrad(const OpView& view, const PrepareContext& ctx);

}  // namespace tandem::ops
