// Makes the state of all ranks of a job equal if some ranks are new or lag.
#pragma once

#include <cstdint>

#include "collective/communicator.h"
#include "common/base/clock.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/program.h"
#include "trainer/modes/state/step_rollback.h"

namespace tandem::trainer {

// A collective call: all ranks must make the call, with the same `program`. `mine`: number of the
// step before which this rank's state was saved; -1: the rank is new and has no state. `point`:
// restores the state before step `mine`; nullptr: the scope still contains this state.
//
// The most advanced ranks are the ranks with the largest `mine`. Each of these ranks restores its
// state with `point`. The lowest of these ranks sends its state to the ranks that lag or are new.
// If all ranks are new, rank 0 sends the state in its scope, before step `begin`. Returns, on all
// ranks, the number of the step before which the common state is.
//
// With `point`, the steps of two ranks differ by at most one period, because no rank completes a
// step before every rank has contributed to the step. The local variables (StepRollback::Own) of a
// lagging rank are therefore up to date and stay unchanged. If the call returns an error, this
// rank's state is either unchanged or complete.
StatusOr<int64_t> SyncStateFromMostAdvanced(collective::Communicator& communicator,
                                            const graph::Program& program, exec::Scope& scope,
                                            int64_t mine, StepRollback* point, int64_t begin);

}  // namespace tandem::trainer
