// Checks shared by the infer functions of many operators. Messages name the slot, and the expected
// and actual values.
#pragma once

#include <initializer_list>
#include <string>

#include "kernels/ops/core/op.h"

namespace tandem {

// Checks that every present input is f32, except position `other` (-1: none).
Status NeedF32(const OpView& view, int other = -1);
// Checks that the present inputs at positions `alike` all have one of the types f32, f16, bf16. All
// other inputs must be f32, except position `other`.
Status NeedFloats(const OpView& view, std::initializer_list<size_t> alike, int other = -1);
// Checks that input `i`, named `name`, has `rank` dimensions.
Status NeedRank(const OpView& view, size_t i, const char* name, int rank);
// Checks that input `i` has the shape [1].
Status NeedOne(const OpView& view, size_t i, const char* name);
// Checks that inputs `i` and `j` have the same type and shape.
Status NeedSame(const OpView& view, size_t i, const char* name_i, size_t j, const char* name_j);
// Checks that the label (input `i`) is i64[b,1], with b rows as in input 0.
Status NeedLabel(const OpView& view, size_t i);
// Checks that attribute `name` is two integers, each at least `min`.
Status NeedPair(const OpView& view, const char* name, int64_t min);

// Checks that attribute `name` is a list of integers. Its default does not show the type.
Status NeedInts(const OpView& view, const char* name);

// Gives output 0 the description of input 0. All inputs must be f32.
Status InferAsFirst(const OpView& view, std::span<TensorDesc> outputs);
// Like InferAsFirst, but all inputs may have one of the types f32, f16, bf16.
Status InferAnyFloat(const OpView& view, std::span<TensorDesc> outputs);

}  // namespace tandem
