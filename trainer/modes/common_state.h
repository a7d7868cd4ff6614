// How ranks of which some are new come to one state.
#pragma once

#include <cstdint>

#include "collective/communicator.h"
#include "common/base/clock.h"
#include "kernels/exec/scope.h"
#include "kernels/graph/program.h"
#include "trainer/modes/step_rollback.h"

namespace tandem::trainer {

// Called by all ranks together; all of them run `program`. This rank's state stands before step
// `mine`; -1: it is new and knows nothing. `point` is where it can go back to, at that step;
// nullptr: it has done nothing since. The rank that is furthest (the lowest of these) gives its
// state to those who are behind or new; those who are as far undo what they did since. With a point
// steps are at most one period apart: nobody ends a step that another has not given everything to.
// So of a rank that is behind, what is its own (StepRollback::Own) is as far already, and stays.
// When all are new, rank 0's scope counts, which stands before `begin`.
// Returns the step that the state stands before, on all ranks. On an error this rank's state is as
// it was, or complete.
StatusOr<int64_t> SyncStateFromMostAdvanced(collective::Communicator& communicator,
                                            const Program& program, Scope& scope, int64_t mine,
                                            StepRollback* point, int64_t begin);

}  // namespace tandem::trainer
