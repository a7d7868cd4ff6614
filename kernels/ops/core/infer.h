// Functions with which operators check their inputs and attributes. Each function returns
// INVALID_ARGUMENT if the check fails. The message names the slot, the expected value and the found
// value.
#pragma once

#include <initializer_list>
#include <string>

#include "kernels/ops/core/op.h"

namespace tandem::ops {

// Checks that every present input is f32. Input `other` may have any type; -1: no exception.
Status NeedF32(const OpView& view, int other = -1);
// Checks that the present inputs at positions `alike` all have the same type, which is f32, f16 or
// bf16. All other inputs must be f32, except input `other` (-1: no exception).
Status NeedFloats(const OpView& view, std::initializer_list<size_t> alike, int other = -1);
// Checks that input `i` has `rank` dimensions. `name`: name of its slot, for the message.
Status NeedRank(const OpView& view, size_t i, const char* name, int rank);
// Checks that input `i` has the shape [1]. `name`: name of its slot, for the message.
Status NeedOne(const OpView& view, size_t i, const char* name);
// Checks that inputs `i` and `j` have the same type and shape.
Status NeedSame(const OpView& view, size_t i, const char* name_i, size_t j, const char* name_j);
// Checks that the label (input `i`) is i64[b,1]. b is the number of rows of input 0.
Status NeedLabel(const OpView& view, size_t i);
// Checks that attribute `name` is a list of two integers, each at least `min`.
Status NeedPair(const OpView& view, const char* name, int64_t min);

// Checks that attribute `name` is set to a list of integers. Operators need this check if the
// default of the attribute does not show the type.
Status NeedInts(const OpView& view, const char* name);

// An infer function: output 0 gets the description of input 0. All inputs must be f32.
Status InferAsFirst(const OpView& view, std::span<TensorDesc> outputs);
// An infer function: output 0 gets the description of input 0. All inputs must have the same type:
// f32, f16 or bf16.
Status InferAnyFloat(const OpView& view, std::span<TensorDesc> outputs);

}  // namespace tandem::ops
