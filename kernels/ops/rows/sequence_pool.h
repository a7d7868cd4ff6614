// What sequence_pool, its gradient and their kernels share.
#pragma once

#include "kernels/ops/core/op.h"
#include "kernels/ops/formulas/sequence_pool.h"

namespace tandem {

struct SequencePool {
  PoolType type = PoolType::kSum;
  int64_t batch = 0, steps = 0, dim = 0;
};

// Inputs 0 (X) and 1 (Lengths) of `view` with its attributes. INVALID_ARGUMENT when they do not
// fit.
StatusOr<SequencePool> SequencePoolOf(const OpView& view);

}  // namespace tandem
