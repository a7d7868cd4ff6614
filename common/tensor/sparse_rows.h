// A subset of the rows of a tall matrix (Paddle's SelectedRows), such as the gradient of a table
// lookup.
#pragma once

#include <cstdint>
#include <vector>

#include "common/tensor/tensor.h"

namespace tandem {

struct SparseRows {
  int64_t height = 0;         // rows of the whole matrix
  std::vector<int64_t> rows;  // which rows, each in [0, height); duplicates allowed until merged
  Tensor values;              // [rows.size(), width]

  // INVALID_ARGUMENT: rows, values and `height` are inconsistent; the message names the row.
  Status Check() const;
  // Returns the same sum with unique, ascending rows. Duplicates are added in their order. f32 on
  // the CPU.
  StatusOr<SparseRows> Merged(Device& device) const;
};

}  // namespace tandem
