// sync_batch_norm: batch normalisation by the mean and variance over the samples of all ranks.
#pragma once

#include "kernels/graph/program.h"

namespace tandem {

// Every batch_norm and fused_bn_add_activation, and its gradient: this rank's moments (or sums) in
// a small tensor, c_allreduce_sum, and what is computed from those of all. Each rank may have
// another number of samples. The collectives have the roles of their operators: they run at every
// step, whatever becomes of the gradients. Returns how many normalisations there are. REQUIRES:
// `program` has its gradients.
StatusOr<int64_t> SyncBatchNorm(Program& program, int rank, int ranks);

}  // namespace tandem
