// What lookup_table, its gradients and their kernels share.
#pragma once

#include <span>

#include "kernels/ops/core/op.h"

namespace tandem {

struct LookupShape {
  int64_t count = 0;  // ids
  int64_t rows = 0, dim = 0;
  int64_t padding_idx = -1;
  Shape out;  // of the rows looked up
};

// Inputs 0 (Ids) and 1 (W) of `view` with its attributes. INVALID_ARGUMENT when they do not fit.
StatusOr<LookupShape> LookupShapeOf(const OpView& view);

// INVALID_ARGUMENT naming the first id that is no row.
Status CheckIds(std::span<const int64_t> ids, int64_t rows);

}  // namespace tandem
