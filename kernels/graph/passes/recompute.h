// Recomputation (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016): memory keeps
// only the checkpoints among the forward values. Backward computes the other values again from
// them.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

// recompute_configs names the checkpoints. Values after the last checkpoint are kept. Copies
// ("x@RECOMPUTE") are inserted before the first backward operator that needs them. Operators with a
// side effect are not repeated, and running statistics are not updated twice. NOT_FOUND, naming the
// checkpoint: no forward operator writes it.
StatusOr<PassOutcome> Recompute(Program& program, PassContext& context);

}  // namespace tandem
