// fuse_bn_act_ops and fuse_bn_add_act_ops: batch_norm and the relu behind it, with or without the
// addition of a residual between them, become one fused_bn_add_activation. Its gradient is one
// operator, too.
#pragma once

#include "kernels/graph/passes/pass.h"

namespace tandem {

StatusOr<PassOutcome> FuseBnAct(Program& program, PassContext& context);
StatusOr<PassOutcome> FuseBnAddAct(Program& program, PassContext& context);

}  // namespace tandem
