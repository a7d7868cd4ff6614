// Pooling of images in the layout nChw16c (image_layout.h): 16 channels in one vector.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem {

StatusOr<Kernel> PrepareBlockedPool(const OpView& view, const PrepareContext& ctx);
StatusOr<Kernel> PrepareBlockedPoolGrad(const OpView& view, const PrepareContext& ctx);

}  // namespace tandem
