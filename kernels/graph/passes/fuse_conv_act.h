// On a device, fuses a convolution and the following relu into one conv2d_relu.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem::graph {

// Runs after autodiff. Backward does not need the output of the convolution: the gradient of relu
// reads only the output of relu, and the gradient of the convolution reads neither output.
StatusOr<PassOutcome> FuseConvAct(Program& program, PassContext& context);

}  // namespace tandem::graph
