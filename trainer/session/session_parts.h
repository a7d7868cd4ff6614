// What a session works out from its job.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/exec/scope.h"
#include "kernels/graph/program.h"
#include "kernels/ops/conv/conv_search.h"
#include "trainer/modes/step_rollback.h"
#include "trainer/monitoring/status_reporter.h"
#include "trainer/session/session.h"

namespace tandem {

// How many steps one run from `step` on takes: num_iteration_per_run, but a run ends where
// something is to be done behind a step.
int64_t RunLengthOf(const JobConfig& config, int64_t step, int64_t steps_total,
                    int64_t steps_per_epoch);

// Where a broken step can go back to. As StepRollback::Make.
StatusOr<StepRollback> ReturnPointOf(const JobConfig& config, const Program& program, Scope& scope,
                                     Device& host);

// What a status page says of the session from step `next` on.
StatusJob StatusJobOf(const JobConfig& config, const SessionOptions& options,
                      const Program& program, const std::string& metric, int64_t next,
                      int64_t steps_total);

// Keeps what `search` measured since it had `*kept` problems, for other sessions too. Returns what
// is told of it, a line each.
std::string KeepSearched(ConvSearch& search, int64_t* kept);

}  // namespace tandem
