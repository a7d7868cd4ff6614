// Accumulates a gradient with several parts in the memory of the first part. Each part is added as
// soon as it is computed. Otherwise all parts would stay in memory until one sum at the end.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem::graph {

// Replaces sums of gradients by additions in place. The order of the additions is kept, so that the
// result has the same bits.
StatusOr<PassOutcome> AddInPlace(Program& program, PassContext& context);

}  // namespace tandem::graph
