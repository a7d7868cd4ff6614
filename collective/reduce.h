// The arithmetic of reductions on host memory.
#pragma once

#include <cstddef>

#include "collective/communicator.h"

namespace tandem {

// f32, f16, bf16, i32, i64; not u8.
bool CanReduce(DType dtype);

// acc[i] = acc[i] op in[i] where `acc_first`, else in[i] op acc[i]: the order shows in the sign of
// max(+0, -0) and in which of two NaNs comes out. The two do not overlap. 16-bit floats are
// computed in f32 and rounded to nearest even; integer overflow wraps; max and min of a NaN and
// anything is NaN. REQUIRES: CanReduce(dtype).
void ReduceInto(ReduceOp op, DType dtype, void* acc, const void* in, size_t count, bool acc_first);

}  // namespace tandem
