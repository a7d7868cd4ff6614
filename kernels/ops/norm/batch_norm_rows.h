// Batch normalisation of images that lie NHWC (image_layout.h), f32 or bf16: a pixel is a row, a
// channel a column.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem {

// batch_norm and fused_bn_add_activation.
StatusOr<Kernel> PrepareRowsBatchNorm(const OpView& view, const PrepareContext& ctx);
StatusOr<Kernel> PrepareRowsBatchNormGrad(const OpView& view, const PrepareContext& ctx);

}  // namespace tandem
