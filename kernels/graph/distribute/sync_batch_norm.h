// The pass sync_batch_norm: batch normalisation with the statistics of all ranks' samples.
#pragma once

#include "kernels/graph/program.h"

namespace tandem::graph {

// Replaces every batch_norm, every fused_bn_add_activation, and their gradients. Each rank writes
// its moments (or sums) to a small tensor. A c_allreduce_sum adds these tensors up, and the result
// is computed from the totals. Each rank may have a different number of samples. Each
// c_allreduce_sum has the role of the normalisation or gradient that needs it, so it runs at every
// step, independently of gradient accumulation. Returns the number of normalisations. REQUIRES:
// `program` has its gradients.
StatusOr<int64_t> SyncBatchNorm(Program& program, int rank, int ranks);

}  // namespace tandem::graph
