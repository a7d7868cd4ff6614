// Reads the operators inside a fused operator.
#pragma once

#include "kernels/ops/core/op.h"
#include "kernels/ops/cpu/body.h"

namespace tandem::ops {

// Returns the body of a fused operator. INVALID_ARGUMENT, naming an operator of the body: it reads
// a value that no operator wrote, it is not elementwise (OpDef::elementwise), or its shapes differ.
// Also INVALID_ARGUMENT: it uses a result of one element that the body computes.
StatusOr<Body> BindBody(const OpView& view);

}  // namespace tandem::ops
