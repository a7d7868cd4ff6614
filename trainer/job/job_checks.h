// Checks a job's own settings (proto/job.proto). common/strategy/validate.h checks its strategy.
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

// Reports all errors in model, batch, data, optimizer and related settings.
void CheckSettings(const JobConfig& config, const strategy::Origins& origins, int workers,
                   strategy::Diagnostics* diagnostics);

// Checks that this job can continue after a loss of ranks, as `what` promises. UNIMPLEMENTED: a
// setting forbids it, because part of the state would be lost; the message names the setting.
Status CheckReturn(const JobConfig& config, const char* what = "tandemrun --max_restarts");

}  // namespace tandem::trainer
