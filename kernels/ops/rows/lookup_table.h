// Declarations for lookup_table, its gradients and their kernels.
#pragma once

#include <span>

#include "kernels/ops/core/op.h"

namespace tandem::ops {

struct LookupShape {
  int64_t count = 0;  // number of ids
  int64_t rows = 0, dim = 0;
  int64_t padding_idx = -1;
  Shape out;  // shape of the result of the lookup
};

// Returns the shape of a lookup, from inputs 0 (Ids) and 1 (W) of `view` and its attributes.
// INVALID_ARGUMENT: inputs and attributes do not match.
StatusOr<LookupShape> LookupShapeOf(const OpView& view);

// Checks that every id is in [0, rows). INVALID_ARGUMENT: an id is outside this range; the message
// names the first such id.
Status CheckIds(std::span<const int64_t> ids, int64_t rows);

}  // namespace tandem::ops
