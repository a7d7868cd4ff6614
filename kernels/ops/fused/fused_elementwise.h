// The operators inside a fused operator.
#pragma once

#include "kernels/ops/core/op.h"
#include "kernels/ops/cpu/body.h"

namespace tandem {

// INVALID_ARGUMENT, naming the operator, when the body reads what nobody wrote, an operator in it
// is not elementwise (OpDef::elementwise), its shapes differ, or a one-element result is used
// inside.
StatusOr<Body> BindBody(const OpView& view);

}  // namespace tandem
