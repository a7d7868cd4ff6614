// Accumulates a gradient with several sources in the memory of the first source. Each part is added
// as soon as it is computed, instead of keeping all parts for one sum at the end.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

// Keeps the order of the additions, so that the result has the same bits.
StatusOr<PassOutcome> AddInPlace(Program& program, PassContext& context);

}  // namespace tandem
