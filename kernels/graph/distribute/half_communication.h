// fp16_allreduce: sends f32 gradients as f16 between devices. Between hosts, the bucket buffer
// converts the gradients (trainer/modes/comms/comm_bucket.h), and the program has no casts.
#pragma once

#include "kernels/graph/program.h"

namespace tandem {

// Inserts a cast of each f32 gradient to f16 before each reduction, which then reduces the f16
// gradient. The cast back is inserted before the next reader of the gradient, so that communication
// overlaps with computation until then.
Status HalveCommunication(Program& program);

}  // namespace tandem
