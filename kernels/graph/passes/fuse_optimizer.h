// Fuses the optimizer operators of one type into one fused_elementwise. Threads then start once
// instead of once per parameter. Learning rates and element types may differ among the operators.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem::graph {

StatusOr<PassOutcome> FuseOptimizer(Program& program, PassContext& context);

}  // namespace tandem::graph
