// Recomputation (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016). The
// checkpoints stay in memory. Backward computes the other forward values again from the
// checkpoints.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem::graph {

// The knob recompute_configs names the checkpoints. Values after the last checkpoint stay in
// memory. Copies ("x@RECOMPUTE") are computed before the first backward operator that needs them.
// Operators with a side effect are not repeated, and running statistics are not updated twice.
// NOT_FOUND, naming the checkpoint: no forward operator writes the checkpoint.
StatusOr<PassOutcome> Recompute(Program& program, PassContext& context);

}  // namespace tandem::graph
