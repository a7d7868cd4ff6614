// The optimizer operators of one type become one fused_elementwise: one start of the threads
// instead of one a parameter. Learning rates and element types may differ among them.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

StatusOr<PassOutcome> FuseOptimizer(Program& program, PassContext& context);

}  // namespace tandem
