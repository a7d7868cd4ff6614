// The pass fuse_relu_depthwise_conv: the relu before a depthwise convolution is computed inside the
// convolution, and again inside its gradient. The output of relu is then not stored in memory.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem::graph {

StatusOr<PassOutcome> FuseReluDepthwiseConv(Program& program, PassContext& context);

}  // namespace tandem::graph
