// Parses the operators inside a fused operator.
#pragma once

#include "kernels/ops/core/op.h"
#include "kernels/ops/cpu/body.h"

namespace tandem::ops {

// Returns the body of a fused operator. INVALID_ARGUMENT: an operator of the body is not
// elementwise (OpDef::elementwise), has tensors of different shapes, reads a value that no earlier
// operator wrote, or reads a one-element result of the body.
StatusOr<Body> BindBody(const OpView& view);

}  // namespace tandem::ops
