// State that forward writes, when a step's batch runs in parts.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

// deterministic: behind a step the saved state that forward writes (batch_norm's running
// statistics) is what the first of batch_merge_repeats parts made of it. So it is, wherever the
// other parts lie, that of the first logical shard. A copy "mean@FIRST" of each lies beside it.
StatusOr<PassOutcome> KeepFirstState(Program& program, PassContext& context);

}  // namespace tandem
