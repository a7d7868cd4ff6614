// fuse_bn_act_ops and fuse_bn_add_act_ops: fuses batch_norm and the following relu, with or without
// a residual addition between them, into one fused_bn_add_activation. The gradient is one operator
// too.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

StatusOr<PassOutcome> FuseBnAct(Program& program, PassContext& context);
StatusOr<PassOutcome> FuseBnAddAct(Program& program, PassContext& context);

}  // namespace tandem
