// The arithmetic of reductions on host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/tensor/types.h"

namespace tandem {

// The numbers travel in headers of messages: never reuse one.
enum class ReduceOp : uint8_t { kSum = 1, kMax = 2, kMin = 3, kProd = 4 };
const char* Name(ReduceOp op);  // "sum", "max", "min", "prod"

// f32, f16, bf16, i32, i64; not u8.
bool CanReduce(DType dtype);

// acc[i] = acc[i] op in[i] where `acc_first`, else in[i] op acc[i]: the order shows in the sign of
// max(+0, -0) and in which of two NaNs comes out. The two do not overlap. 16-bit floats are
// computed in f32 and rounded to nearest even; integer overflow wraps; max and min of a NaN and
// anything is NaN. REQUIRES: CanReduce(dtype).
void ReduceInto(ReduceOp op, DType dtype, void* acc, const void* in, size_t count, bool acc_first);

// out[k][i] = ((in[0][i] op in[1][i]) op in[2][i]) ... for each k, as ReduceInto computes it. An
// out may be one of the ins; else none overlap. REQUIRES: CanReduce(dtype); `in` is not empty.
void ReduceAcross(ReduceOp op, DType dtype, std::span<const std::byte* const> in,
                  std::span<std::byte* const> out, size_t count);
// The same as a binary tree over the ins: neighbours first, then pairs of neighbours, ... (of six
// (((0 op 1) op (2 op 3)) op (4 op 5))). The order of sums on parameter servers, and of the
// collectives' tree (collective/schedule/ring.h).
void ReduceTree(ReduceOp op, DType dtype, std::span<const std::byte* const> in,
                std::span<std::byte* const> out, size_t count);

}  // namespace tandem
