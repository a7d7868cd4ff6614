// Keeps one value of the state that forward writes if the batch of a step runs in parts.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem::graph {

// For the knob deterministic. Forward writes saved state, such as the running statistics of
// batch_norm. After a step, this state is the one that the first of batch_merge_repeats parts
// computed. The first part is the first logical shard, wherever the other parts run. A state
// variable "mean@FIRST" stores the copy of each state.
StatusOr<PassOutcome> KeepFirstState(Program& program, PassContext& context);

}  // namespace tandem::graph
