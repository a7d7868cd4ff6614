// enable_backward_optimizer_op_deps: false. Updates a parameter as soon as its gradient is ready
// and no later operator reads the parameter. The memory of the gradient is then free for the next
// one.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

// An update after an allreduce moves no further forward than the start of the next allreduce. An
// earlier wait would stop the computation that overlaps with the communication.
StatusOr<PassOutcome> UpdateEarly(Program& program, PassContext& context);

}  // namespace tandem
