// Declarations for sequence_pool, its gradient and their kernels.
#pragma once

#include "kernels/ops/core/op.h"
#include "kernels/ops/formulas/sequence_pool.h"

namespace tandem::ops {

struct SequencePool {
  PoolType type = PoolType::kSum;
  int64_t batch = 0, steps = 0, dim = 0;
};

// Returns the sizes and the type of a sequence_pool, from inputs 0 (X) and 1 (Lengths) of `view`
// and its attributes. INVALID_ARGUMENT: inputs and attributes do not match.
StatusOr<SequencePool> SequencePoolOf(const OpView& view);

}  // namespace tandem::ops
