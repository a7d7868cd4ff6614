// Pooling of images in the layout NHWC (image_layout.h) by oneDNN.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem::ops {

StatusOr<Kernel> PrepareDnnlPool(const OpView& view, const PrepareContext& ctx);
StatusOr<Kernel> PrepareDnnlPoolGrad(const OpView& view, const PrepareContext& ctx);

}  // namespace tandem::ops
