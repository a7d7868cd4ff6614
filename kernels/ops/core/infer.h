// Checks that many operators' infer functions share. Messages name slots, expected and got.
#pragma once

#include <initializer_list>
#include <string>

#include "kernels/ops/core/op.h"

namespace tandem {

// Every input that is there is f32, except position `other` (-1: none).
Status NeedF32(const OpView& view, int other = -1);
// The inputs at the positions `alike` that are there are of one type of f32, f16 and bf16; all
// other inputs are f32, except position `other`.
Status NeedFloats(const OpView& view, std::initializer_list<size_t> alike, int other = -1);
// Input `i`, called `name`, has `rank` dimensions.
Status NeedRank(const OpView& view, size_t i, const char* name, int rank);
// Input `i` has the shape [1].
Status NeedOne(const OpView& view, size_t i, const char* name);
// Inputs `i` and `j` have the same type and shape.
Status NeedSame(const OpView& view, size_t i, const char* name_i, size_t j, const char* name_j);
// Label (input `i`) is i64[b,1], b rows as in input 0.
Status NeedLabel(const OpView& view, size_t i);
// Attribute `name` is two integers, each at least `min`.
Status NeedPair(const OpView& view, const char* name, int64_t min);

// Attribute `name`, which has no default that would tell its type, is a list of integers.
Status NeedInts(const OpView& view, const char* name);

// Output 0 is as input 0; all inputs are f32.
Status InferAsFirst(const OpView& view, std::span<TensorDesc> outputs);
// The same where all inputs are of one type of f32, f16 and bf16.
Status InferAnyFloat(const OpView& view, std::span<TensorDesc> outputs);

}  // namespace tandem
