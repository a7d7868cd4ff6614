// The operators inside a fused operator.
#pragma once

#include "kernels/ops/core/op.h"
#include "kernels/ops/cpu/body.h"

namespace tandem {

// Returns the body of a fused operator. INVALID_ARGUMENT, naming the operator: the body reads a
// value that no operator wrote, an operator is not elementwise (OpDef::elementwise), its shapes
// differ, or a one-element result is used inside.
StatusOr<Body> BindBody(const OpView& view);

}  // namespace tandem
