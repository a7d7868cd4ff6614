// Recomputation (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016): of the
// forward values only the checkpoints are kept; backward computes the others again from them.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

// Checkpoints are named in recompute_configs. What lies behind the last of them is kept. Copies
// ("x@RECOMPUTE") stand before the backward operator that needs them first; operators with a side
// effect are not repeated, and running statistics not updated twice. NOT_FOUND naming a checkpoint
// that no forward operator writes.
StatusOr<PassOutcome> Recompute(Program& program, PassContext& context);

}  // namespace tandem
