// Batch normalisation of images in NHWC (image_layout.h), with elements of type f32 or bf16. A
// pixel is a row, a channel is a column.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem::ops {

// Prepare kernels of batch_norm and fused_bn_add_activation.
StatusOr<Kernel> PrepareRowsBatchNorm(const OpView& view, const PrepareContext& ctx);
StatusOr<Kernel> PrepareRowsBatchNormGrad(const OpView& view, const PrepareContext& ctx);

}  // namespace tandem::ops
