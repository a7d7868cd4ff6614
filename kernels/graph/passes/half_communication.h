// f32 gradients travel as f16 between devices (fp16_allreduce). Between hosts the buffer that
// gathers them converts them on the way (trainer/modes/comm_bucket.h), and nothing is in the
// program.
#pragma once

#include "kernels/graph/program.h"

namespace tandem {

// Before each reduction of gradients a cast of each f32 gradient to f16, which is reduced in its
// place; the cast back stands before whoever reads the gradient next, so that communication goes on
// meanwhile.
Status HalveCommunication(Program& program);

}  // namespace tandem
