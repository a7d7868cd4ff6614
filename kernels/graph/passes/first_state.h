// Handles state that forward writes if the batch of a step runs in parts.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

// deterministic: after a step, saved state that forward writes (batch_norm's running statistics) is
// the result of the first of batch_merge_repeats parts. This part is the first logical shard,
// wherever the other parts run. A state variable "mean@FIRST" stores the copy of each.
StatusOr<PassOutcome> KeepFirstState(Program& program, PassContext& context);

}  // namespace tandem
