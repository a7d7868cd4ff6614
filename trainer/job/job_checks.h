// What is asked of a job's own settings (proto/job.proto), beside those of its strategy
// (common/strategy/validate.h).
#pragma once

#include "common/base/status.h"
#include "common/strategy/origins.h"

namespace tandem {

class Diagnostics;
class JobConfig;

// Tells everything that is wrong with model, batch, data, optimizer and what goes with them.
void CheckSettings(const JobConfig& config, const Origins& origins, int workers,
                   Diagnostics* diagnostics);

// Whether this job can lose ranks and go on, as `what` promises. UNIMPLEMENTED naming the setting
// with which it cannot: part of the state would be lost with them.
Status CheckReturn(const JobConfig& config, const char* what = "tandemrun --max_restarts");

}  // namespace tandem
