// fuse_relu_depthwise_conv: computes the relu before a depthwise convolution inside the
// convolution, and again inside its gradient. No operator is then left between the convolution and
// the producer of its input.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

StatusOr<PassOutcome> FuseReluDepthwiseConv(Program& program, PassContext& context);

}  // namespace tandem
