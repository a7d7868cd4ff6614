// Selections: the format in which deep gradient compression sends a few elements of a tensor. A
// selection of at most `capacity` elements is i32 [1 + 2 capacity]:
//   word 0                 k, the number of elements
//   words [1, 1 + k)       their indices in the flat tensor, ascending
//   words [1 + k, 1 + 2k)  their values, as the bits of an f32
//   the rest               0
// Ranks send the first 1 + 2k words.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem {

// Returns how many of n elements are sent if the share `sparsity`, in [0, 1), is not sent. Returns
// at least one if n is not 0. `sparsity` is an f32, as in the operator's input, so that a capacity
// computed from it is sufficient.
int64_t SelectedOf(int64_t n, float sparsity);

constexpr int64_t SelectionWords(int64_t k) { return 1 + 2 * k; }

// Returns the capacity of a selection whose dimension is `words`. INVALID_ARGUMENT, naming `name`:
// it is not a dimension of a selection.
StatusOr<int64_t> SelectionCapacity(const OpView& view, const char* name, int64_t words);

}  // namespace tandem
