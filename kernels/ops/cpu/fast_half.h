// The 16-bit types with which this machine computes faster than with f32.
#pragma once

#include "common/tensor/types.h"

namespace tandem::ops {

// Returns true if this machine computes products of `dtype` faster than products of f32.
bool HasFastHalf(DType dtype);

}  // namespace tandem::ops
