// Chains of elementwise operators, forward and backward, become one loop over blocks that stay in
// the cache (kernels/ops/fused/fused_elementwise.cc); values that only the chain sees vanish.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

StatusOr<PassOutcome> FuseChains(Program& program, PassContext& context);

}  // namespace tandem
