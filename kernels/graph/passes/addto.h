// A gradient with several sources is added up in the place of the first, each part as soon as it is
// there, instead of keeping all parts for one sum at the end.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

// The same additions in the same order: the same bits.
StatusOr<PassOutcome> AddInPlace(Program& program, PassContext& context);

}  // namespace tandem
