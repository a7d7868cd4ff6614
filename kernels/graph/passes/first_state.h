// For a batch that runs in parts: selects one of the values that forward writes to a state.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem::graph {

// Implements a part of the knob deterministic. Forward writes saved state, such as the running
// statistics of batch_norm. batch_merge_repeats divides the batch of a step into parts. After a
// step, the state has the values that the first part computed. The first part is the first logical
// shard, independently of the ranks that run the other parts. A state variable such as "mean@FIRST"
// stores the copy of each state.
StatusOr<PassOutcome> KeepFirstState(Program& program, PassContext& context);

}  // namespace tandem::graph
