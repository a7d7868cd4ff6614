// Some rows of a tall matrix (Paddle's SelectedRows), such as the gradient of a table lookup.
#pragma once

#include <cstdint>
#include <vector>

#include "common/tensor/tensor.h"

namespace tandem {

struct SparseRows {
  int64_t height = 0;  // number of rows of the whole matrix
  // Row numbers, each in [0, height); duplicates are allowed before Merged().
  std::vector<int64_t> rows;
  Tensor values;  // values of the rows, with shape [rows.size(), width]

  // Checks the fields. INVALID_ARGUMENT: `rows`, `values` and `height` are inconsistent; the
  // message names the row.
  Status Check() const;
  // Returns an equal matrix whose row numbers are unique and in ascending order. The values of
  // duplicate rows are added in the order of the duplicates. REQUIRES: the values are on the CPU.
  // UNIMPLEMENTED: the values are not f32.
  StatusOr<SparseRows> Merged(Device& device) const;
};

}  // namespace tandem
