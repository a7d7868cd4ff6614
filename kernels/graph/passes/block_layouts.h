// The layouts of images that a place has fast convolutions for (kernels/ops/core/image_layout.h).
// Convolutions and the operators between them keep such a layout; reorder operators stand where it
// meets operators that know NCHW alone.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

// use_mkldnn: oneDNN's blocked layout, or for 16 bits channels last, on CPU. 3x3 convolutions that
// Winograd's algorithm serves use it.
StatusOr<PassOutcome> BlockLayouts(Program& program, PassContext& context);

// amp: channels last around the convolutions of 16-bit images that have one group, on a device.
StatusOr<PassOutcome> ChannelsLast(Program& program, PassContext& context);

}  // namespace tandem
