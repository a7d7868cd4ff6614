// Reductions (sum, maximum, minimum, product) of arrays in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/tensor/types.h"

namespace tandem {

// The reduction operations. Their numbers are in message headers between processes, so a number
// must never get another meaning.
enum class ReduceOp : uint8_t { kSum = 1, kMax = 2, kMin = 3, kProd = 4 };
const char* Name(ReduceOp op);  // returns "sum", "max", "min" or "prod"

// Returns true for f32, f16, bf16, i32 and i64, false for u8.
bool CanReduce(DType dtype);

// Computes acc[i] = acc[i] op in[i] if `acc_first`, otherwise acc[i] = in[i] op acc[i]. The order
// determines the sign of max(+0, -0), and which of two NaNs is the result. `acc` and `in` must not
// overlap. 16-bit floats are computed in f32 and rounded to nearest even. Integer overflow wraps.
// If an operand of max or min is NaN, the result is NaN. REQUIRES: CanReduce(dtype).
void ReduceInto(ReduceOp op, DType dtype, void* acc, const void* in, size_t count, bool acc_first);

// Computes out[k][i] = ((in[0][i] op in[1][i]) op in[2][i]) ... for each k, like ReduceInto. An
// output may be an input; otherwise no memory may overlap. REQUIRES: CanReduce(dtype); `in` is not
// empty.
void ReduceAcross(ReduceOp op, DType dtype, std::span<const std::byte* const> in,
                  std::span<std::byte* const> out, size_t count);
// Like ReduceAcross, but reduces the inputs as a binary tree: first neighbours, then pairs of
// neighbours, and so on. For six inputs: (((0 op 1) op (2 op 3)) op (4 op 5)). Parameter servers
// and the tree of the collectives (collective/schedule/ring.h) add in this order.
void ReduceTree(ReduceOp op, DType dtype, std::span<const std::byte* const> in,
                std::span<std::byte* const> out, size_t count);

}  // namespace tandem
