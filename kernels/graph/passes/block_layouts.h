// use_mkldnn: convolutions and the operators between them work in oneDNN's blocked layout
// (kernels/ops/image_layout.h) instead of reordering at each of them; reorder operators stand where
// blocked values meet operators that know NCHW alone. 3x3 convolutions that Winograd's algorithm
// serves use it.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

StatusOr<PassOutcome> BlockLayouts(Program& program, PassContext& context);

}  // namespace tandem
