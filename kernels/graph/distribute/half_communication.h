// The knob fp16_allreduce: sends f32 gradients as f16 between devices. Between hosts, the bucket
// buffer converts the gradients (trainer/modes/comms/comm_bucket.h), and this pass inserts no
// casts.
#pragma once

#include "kernels/graph/program.h"

namespace tandem::graph {

// Inserts casts of f32 gradients to f16 before each reduction, which then reduces the f16 copies. A
// cast to f32 is inserted before the next reader of each gradient. Until this cast, communication
// overlaps with computation.
Status HalveCommunication(Program& program);

}  // namespace tandem::graph
