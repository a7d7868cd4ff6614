// Selections: the form in which deep gradient compression sends a few elements of a tensor. One of
// at most `capacity` elements is i32 [1 + 2 capacity]:
//   word 0                 k, the number of elements
//   words [1, 1 + k)       their indices in the flat tensor, ascending
//   words [1 + k, 1 + 2k)  their values, as the bits of an f32
//   the rest               0
// What travels is the first 1 + 2k words.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem {

// How many of n elements are sent where the share `sparsity`, in [0, 1), of them is not: at least
// one, where there is one. An f32, as it reaches the operator, so that a capacity computed from it
// is enough.
int64_t SelectedOf(int64_t n, float sparsity);

constexpr int64_t SelectionWords(int64_t k) { return 1 + 2 * k; }

// The dimension `words` is that of a selection: its capacity. INVALID_ARGUMENT naming `name`.
StatusOr<int64_t> SelectionCapacity(const OpView& view, const char* name, int64_t words);

}  // namespace tandem
