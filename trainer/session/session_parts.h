// Values that a session computes from its job.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/exec/scope.h"
#include "kernels/graph/program.h"
#include "kernels/ops/conv/conv_search.h"
#include "trainer/modes/step_rollback.h"
#include "trainer/monitoring/status_reporter.h"
#include "trainer/session/session.h"

namespace tandem::trainer {

// The number of steps of one run from `step` on: num_iteration_per_run, or fewer. A run ends after
// a step that something else must follow, such as an evaluation.
int64_t RunLengthOf(const JobConfig& config, int64_t step, int64_t steps_total,
                    int64_t steps_per_epoch);

// The point to which a failed step is rolled back. As StepRollback::Make.
StatusOr<StepRollback> ReturnPointOf(const JobConfig& config, const Program& program, Scope& scope,
                                     Device& host);

// The status page's description of the session from step `next` on.
StatusJob StatusJobOf(const JobConfig& config, const SessionOptions& options,
                      const Program& program, const std::string& metric, int64_t next,
                      int64_t steps_total);

// Saves the results of `search`, for other sessions too, if it has more than `*kept` problems.
// Returns notes for the user, one per line.
std::string KeepSearched(ConvSearch& search, int64_t* kept);

}  // namespace tandem::trainer
