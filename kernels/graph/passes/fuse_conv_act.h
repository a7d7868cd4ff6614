// On a device, fuses a convolution and the following relu into one conv2d_relu.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

// Runs after autodiff. This is possible because relu's gradient reads only its Out, and the
// gradient of a convolution reads neither.
StatusOr<PassOutcome> FuseConvAct(Program& program, PassContext& context);

}  // namespace tandem
