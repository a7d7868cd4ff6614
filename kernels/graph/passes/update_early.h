// enable_backward_optimizer_op_deps: false. A parameter is updated as soon as its gradient is there
// and nobody reads the parameter any more, so that the gradient's memory is free for the next.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

// Behind an allreduce an update goes no further up than the start of the next one: waiting earlier
// would end what runs beside it.
StatusOr<PassOutcome> UpdateEarly(Program& program, PassContext& context);

}  // namespace tandem
