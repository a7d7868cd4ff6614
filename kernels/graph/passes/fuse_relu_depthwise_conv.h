// fuse_relu_depthwise_conv: the relu before a depthwise convolution is computed inside it, again in
// its gradient, so that no operator stands between it and what gives its input.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

StatusOr<PassOutcome> FuseReluDepthwiseConv(Program& program, PassContext& context);

}  // namespace tandem
