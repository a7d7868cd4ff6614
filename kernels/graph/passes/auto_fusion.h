// Fuses chains of elementwise operators, forward and backward. Each chain becomes one loop over
// blocks that stay in the cache (kernels/ops/fused/fused_elementwise.cc). Values that only
// operators of the chain use are not stored in memory.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem::graph {

StatusOr<PassOutcome> FuseChains(Program& program, PassContext& context);

}  // namespace tandem::graph
