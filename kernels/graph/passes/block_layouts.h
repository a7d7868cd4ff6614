// Selects the image layouts with which convolutions are fast on the place of the program
// (kernels/ops/core/image_layout.h). Operators between convolutions keep the layout. Reorder
// operators convert images for operators that support only NCHW.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem::graph {

// The pass use_mkldnn: on the CPU, uses oneDNN's blocked layout, or channels last for 16-bit
// images. Selects Winograd's algorithm for 3x3 convolutions with many channels.
StatusOr<PassOutcome> BlockLayouts(Program& program, PassContext& context);

// The pass amp.channels_last: on a device, uses channels last around convolutions of 16-bit images
// with one group.
StatusOr<PassOutcome> ChannelsLast(Program& program, PassContext& context);

}  // namespace tandem::graph
