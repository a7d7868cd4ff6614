// On a device a convolution and the relu behind it become one conv2d_relu.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

// Runs behind autodiff: relu's gradient reads its Out alone, that of a convolution reads neither.
StatusOr<PassOutcome> FuseConvAct(Program& program, PassContext& context);

}  // namespace tandem
