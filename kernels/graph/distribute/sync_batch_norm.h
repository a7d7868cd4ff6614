// sync_batch_norm: batch normalisation with the mean and variance over the samples of all ranks.
#pragma once

#include "kernels/graph/program.h"

namespace tandem {

// Replaces every batch_norm and fused_bn_add_activation, and their gradients. This rank's moments
// (or sums) go into a small tensor, c_allreduce_sum adds them up, and the result is computed from
// the totals. Each rank may have a different number of samples. The collectives have the roles of
// their operators, so they run at every step, independently of gradient accumulation. Returns the
// number of normalisations. REQUIRES: `program` has its gradients.
StatusOr<int64_t> SyncBatchNorm(Program& program, int rank, int ranks);

}  // namespace tandem
