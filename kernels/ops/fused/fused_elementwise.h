// Parses the operators inside a fused operator.
#pragma once

#include "kernels/ops/core/op.h"
#include "kernels/ops/cpu/body.h"

namespace tandem::ops {

// Returns the body of a fused operator. INVALID_ARGUMENT: an operator of the body reads a value
// that no operator wrote, or a one-element result of the body. Also INVALID_ARGUMENT: an operator
// is not elementwise (OpDef::elementwise), or its tensors have different shapes.
StatusOr<Body> BindBody(const OpView& view);

}  // namespace tandem::ops
