// Brings all ranks of a job to the same state if some of them are new.
#pragma once

#include <cstdint>

#include "collective/communicator.h"
#include "common/base/clock.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/program.h"
#include "trainer/modes/state/step_rollback.h"

namespace tandem::trainer {

// A collective call: all ranks must make it, with the same `program`. `mine`: the step before which
// this rank's state was taken; -1: the rank is new and has no state. `point`: can restore the state
// before step `mine`; nullptr: the state has not changed since it was taken. The most advanced rank
// sends its state to ranks that lag or are new; if several ranks qualify, the lowest one sends.
// Other ranks at the step of this rank undo the changes that they made after it. With `point`,
// steps differ by at most one period, because no rank completes a step before every rank has
// contributed to it. The local variables (StepRollback::Own) of a lagging rank are therefore up to
// date and stay unchanged. If all ranks are new, they receive the state of rank 0's scope, taken
// before step `begin`. Returns, on all ranks, the step before which the common state was taken.
// After an error this rank's state is either unchanged or complete.
StatusOr<int64_t> SyncStateFromMostAdvanced(collective::Communicator& communicator,
                                            const graph::Program& program, exec::Scope& scope,
                                            int64_t mine, StepRollback* point, int64_t begin);

}  // namespace tandem::trainer
