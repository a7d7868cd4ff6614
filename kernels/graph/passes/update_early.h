// The knob enable_backward_optimizer_op_deps with value false: updates a parameter as soon as its
// gradient is ready and no later operator reads the parameter. The memory of the gradient is then
// free for the next gradient.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem::graph {

// Moves updates before later operators. An update after an allreduce moves at most to the start of
// the next allreduce. If the update moved further, the plan would wait for the allreduce earlier,
// and less computation would overlap with the communication.
StatusOr<PassOutcome> UpdateEarly(Program& program, PassContext& context);

}  // namespace tandem::graph
