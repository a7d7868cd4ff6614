// Accumulates a gradient with several parts in the memory of the first part. Each part is added as
// soon as it is computed. Without this pass, all parts stay in memory until one operator adds them
// up.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem::graph {

// Replaces sums of gradients by additions in place. The order of the additions is kept, so that the
// result has the same bits.
StatusOr<PassOutcome> AddInPlace(Program& program, PassContext& context);

}  // namespace tandem::graph
