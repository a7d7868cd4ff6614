// The passes fuse_bn_act_ops and fuse_bn_add_act_ops. They fuse a batch_norm and the following relu
// into one fused_bn_add_activation, without or with an addition between the two. The gradient also
// becomes one operator.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem::graph {

StatusOr<PassOutcome> FuseBnAct(Program& program, PassContext& context);
StatusOr<PassOutcome> FuseBnAddAct(Program& program, PassContext& context);

}  // namespace tandem::graph
