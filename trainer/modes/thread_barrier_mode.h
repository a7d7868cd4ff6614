// mode=pserver with use_thread_barrier: the replicas of one process are one trainer to the
// pservers. Gradients are summed in memory at the first replica. Only this replica pushes and
// pulls; it then broadcasts the pulled values.
#pragma once

#include <optional>

#include "trainer/modes/common_options.h"
#include "trainer/modes/mode.h"

namespace tandem::trainer {

// `places` is the collective mode among the replicas. `servers` is the pserver mode of the first
// replica; the others have none, and take no part in evaluations. `options` are those of this
// replica.
TrainingMode MakeThreadBarrierMode(const CommonOptions& options, TrainingMode places,
                                   std::optional<TrainingMode> servers);

}  // namespace tandem::trainer
