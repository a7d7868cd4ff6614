// Arithmetic of reductions on host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/tensor/types.h"

namespace tandem {

// The values are part of message headers on the wire: never reuse one.
enum class ReduceOp : uint8_t { kSum = 1, kMax = 2, kMin = 3, kProd = 4 };
const char* Name(ReduceOp op);  // "sum", "max", "min", "prod"

// f32, f16, bf16, i32, i64; not u8.
bool CanReduce(DType dtype);

// acc[i] = acc[i] op in[i] if `acc_first`, else in[i] op acc[i]. The order determines the sign of
// max(+0, -0) and which of two NaNs is the result. The two must not overlap. 16-bit floats are
// computed in f32 and rounded to nearest even. Integer overflow wraps. If an operand of max or min
// is NaN, the result is NaN. REQUIRES: CanReduce(dtype).
void ReduceInto(ReduceOp op, DType dtype, void* acc, const void* in, size_t count, bool acc_first);

// out[k][i] = ((in[0][i] op in[1][i]) op in[2][i]) ... for each k, computed like ReduceInto. An
// output may be one of the inputs; otherwise no memory may overlap. REQUIRES: CanReduce(dtype);
// `in` is not empty.
void ReduceAcross(ReduceOp op, DType dtype, std::span<const std::byte* const> in,
                  std::span<std::byte* const> out, size_t count);
// The same as a binary tree over the inputs: first neighbours, then pairs of neighbours, and so on.
// For six inputs: (((0 op 1) op (2 op 3)) op (4 op 5)). Parameter servers and the tree of the
// collectives (collective/schedule/ring.h) add in this order.
void ReduceTree(ReduceOp op, DType dtype, std::span<const std::byte* const> in,
                std::span<std::byte* const> out, size_t count);

}  // namespace tandem
