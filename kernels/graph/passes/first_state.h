// Handles state that forward writes if the batch of a step runs in parts.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

// deterministic: after a step, saved state that forward writes (batch_norm's running statistics) is
// the result of the first of batch_merge_repeats parts. That part is the first logical shard,
// wherever the other parts run. Each state has a copy "mean@FIRST" for this.
StatusOr<PassOutcome> KeepFirstState(Program& program, PassContext& context);

}  // namespace tandem
