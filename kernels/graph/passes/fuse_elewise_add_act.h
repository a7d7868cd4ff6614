// Fuses act(x + y) and x + act(y) into one fused_elemwise_activation.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem::graph {

// Runs before autodiff, because the fused operator has its own gradient.
StatusOr<PassOutcome> FuseElewiseAddAct(Program& program, PassContext& context);

}  // namespace tandem::graph
