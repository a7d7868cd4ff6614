// mode=pserver with use_thread_barrier: the replicas of one process are one trainer to the
// pservers. The first replica sums the gradients of all replicas in memory. Only the first replica
// pushes and pulls. It broadcasts the pulled values to the other replicas.
#pragma once

#include <optional>

#include "trainer/modes/common_options.h"
#include "trainer/modes/mode.h"

namespace tandem::trainer {

// `options`: options of this replica. `places`: the collective mode among the replicas. `servers`:
// the pserver mode on the first replica; nullopt on the other replicas, which take no part in
// evaluations.
TrainingMode MakeThreadBarrierMode(const CommonOptions& options, TrainingMode places,
                                   std::optional<TrainingMode> servers);

}  // namespace tandem::trainer
