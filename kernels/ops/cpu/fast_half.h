// The 16-bit types in which this machine computes faster than in f32.
#pragma once

#include "common/tensor/types.h"

namespace tandem {

// Returns true if this machine computes products of this type faster than products of f32.
bool HasFastHalf(DType dtype);

}  // namespace tandem
