// Checks the settings of a job (proto/job.proto). common/strategy/validate.h checks the strategy.
#pragma once

#include "common/base/status.h"
#include "common/strategy/origins.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::strategy {
class Diagnostics;
}  // namespace tandem::strategy

namespace tandem::trainer {

// Reports all errors in the settings of the model, batch, data, optimizer and other parts of the
// job.
void CheckSettings(const JobConfig& config, const strategy::Origins& origins, int workers,
                   strategy::Diagnostics* diagnostics);

// Reports the errors that CheckSettings finds in the optimizer, the time limits and the place. A
// job without model, data and batch size (JobSources::stepped_by_caller) needs only these checks.
void CheckTrainingSettings(const JobConfig& config, const strategy::Origins& origins,
                           strategy::Diagnostics* diagnostics);

}  // namespace tandem::trainer
