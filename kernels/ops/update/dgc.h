// Selections: the format in which deep gradient compression sends a few elements of a tensor. A
// selection of at most `capacity` elements is i32 [1 + 2 capacity]:
//   word 0                 k, the number of elements
//   words [1, 1 + k)       indices of the elements in the flat tensor, ascending
//   words [1 + k, 1 + 2k)  values of the elements, as the bits of an f32
//   all later words        0
// Ranks send the first 1 + 2k words.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem::ops {

// Returns the number of elements to send out of n elements. `sparsity`, in [0, 1), is the share
// that is not sent. At least one element is sent, unless n is 0. `sparsity` has the same type, f32,
// as the operator's input. Therefore a capacity that is computed with this function is sufficient.
int64_t SelectedOf(int64_t n, float sparsity);

constexpr int64_t SelectionWords(int64_t k) { return 1 + 2 * k; }

// Returns the capacity of a selection of `words` words. INVALID_ARGUMENT, naming input `name`: no
// selection has this number of words.
StatusOr<int64_t> SelectionCapacity(const OpView& view, const char* name, int64_t words);

}  // namespace tandem::ops
