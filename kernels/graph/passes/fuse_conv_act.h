// On a device, fuses a convolution and the following relu into one conv2d_relu.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem::graph {

// Runs after autodiff. This is possible because the gradient of relu reads only its Out. The
// gradient of the convolution reads neither the Output of the convolution nor that of relu.
StatusOr<PassOutcome> FuseConvAct(Program& program, PassContext& context);

}  // namespace tandem::graph
