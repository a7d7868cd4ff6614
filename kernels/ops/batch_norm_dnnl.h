// Batch normalisation of images in the layout NHWC (image_layout.h) by oneDNN.
#pragma once

#include "kernels/ops/op.h"

namespace tandem {

// batch_norm and fused_bn_add_activation.
StatusOr<Kernel> PrepareDnnlBatchNorm(const OpView& view, const PrepareContext& ctx);
StatusOr<Kernel> PrepareDnnlBatchNormGrad(const OpView& view, const PrepareContext& ctx);

}  // namespace tandem
