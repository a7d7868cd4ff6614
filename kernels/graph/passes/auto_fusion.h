// Fuses chains of elementwise operators, forward and backward, into one loop over blocks that stay
// in the cache (kernels/ops/fused/fused_elementwise.cc). Values that only the chain uses disappear.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

StatusOr<PassOutcome> FuseChains(Program& program, PassContext& context);

}  // namespace tandem
