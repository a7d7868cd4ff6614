// Brings ranks to the same state when some of them are new.
#pragma once

#include <cstdint>

#include "collective/communicator.h"
#include "common/base/clock.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/program.h"
#include "trainer/modes/state/step_rollback.h"

namespace tandem::trainer {

// Collective: all ranks call it, with the same `program`. `mine` is the step that this rank's state
// precedes; -1: the rank is new and has no state. `point` can restore the state of step `mine`;
// nullptr: the state is unchanged since then.
// The most advanced rank (the lowest of these) sends its state to ranks that lag or are new. Ranks
// at the same step undo their changes since then.
// With `point`, steps differ by at most one period, because no rank completes a step before every
// rank has contributed to it. So the local state (StepRollback::Own) of a lagging rank is up to
// date and stays unchanged.
// If all ranks are new, all get the state of rank 0's scope, which precedes step `begin`.
// Returns, on all ranks, the step that the common state precedes. After an error this rank's state
// is unchanged or complete.
StatusOr<int64_t> SyncStateFromMostAdvanced(collective::Communicator& communicator,
                                            const Program& program, Scope& scope, int64_t mine,
                                            StepRollback* point, int64_t begin);

}  // namespace tandem::trainer
