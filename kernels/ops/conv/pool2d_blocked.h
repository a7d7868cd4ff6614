// Pooling of images in the layout nChw16c (image_layout.h): one vector holds 16 channels.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem::ops {

StatusOr<Kernel> PrepareBlockedPool(const OpView& view, const PrepareContext& ctx);
StatusOr<Kernel> PrepareBlockedPoolGrad(const OpView& view, const PrepareContext& ctx);

}  // namespace tandem::ops
