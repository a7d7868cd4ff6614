// Selects image layouts for which a place has fast convolutions (kernels/ops/core/image_layout.h).
// Convolutions and the operators between them keep such a layout. Reorder operators convert where
// an operator supports only NCHW.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

// use_mkldnn: on CPU, uses oneDNN's blocked layout, or channels last for 16-bit images. Applies to
// 3x3 convolutions for which Winograd's algorithm is used.
StatusOr<PassOutcome> BlockLayouts(Program& program, PassContext& context);

// amp: on a device, uses channels last around convolutions of 16-bit images with one group.
StatusOr<PassOutcome> ChannelsLast(Program& program, PassContext& context);

}  // namespace tandem
