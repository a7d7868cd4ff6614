// For a batch that runs in parts: selects one of the values that forward writes to a state.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem::graph {

// Implements a part of the knob deterministic. With batch_merge_repeats, forward runs once for each
// part of the batch, and each run writes saved state such as the running statistics of batch_norm.
// This pass makes the state keep the values of the first part, which is the first logical shard. So
// the state does not depend on how the parts are distributed over the ranks. Until the end of the
// step, a state variable such as "mean@FIRST" stores the values of the first part.
StatusOr<PassOutcome> KeepFirstState(Program& program, PassContext& context);

}  // namespace tandem::graph
