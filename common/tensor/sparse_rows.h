// Some rows of a tall matrix (Paddle's SelectedRows): the gradient of a table lookup.
#pragma once

#include <cstdint>
#include <vector>

#include "common/tensor/tensor.h"

namespace tandem {

struct SparseRows {
  int64_t height = 0;         // rows of the whole matrix
  std::vector<int64_t> rows;  // which rows, each in [0, height); duplicates allowed until merged
  Tensor values;              // [rows.size(), width]

  // INVALID_ARGUMENT naming the row, unless rows and values fit each other and `height`.
  Status Check() const;
  // The same sum with each row once, ascending (duplicates added in their order). f32 on the CPU.
  StatusOr<SparseRows> Merged(Device& device) const;
};

}  // namespace tandem
