// The optimizer of a job: converts OptimizerConfig (proto/job.proto) for kernels/graph/optimizer.h.
#pragma once

#include "common/strategy/origins.h"
#include "kernels/graph/optimizer.h"

namespace tandem {
class JobConfig;
}  // namespace tandem

namespace tandem::strategy {
class Diagnostics;
}  // namespace tandem::strategy

namespace tandem::trainer {

// Reports errors in the optimizer's settings: an unknown type (with the nearest known one), a field
// that the type does not use, a bad number. Also reports lars or dgc without momentum, lars with
// use_nesterov, and lamb without adam.
void CheckOptimizer(const JobConfig& job, const strategy::Origins& origins,
                    strategy::Diagnostics* diagnostics);

// Returns the optimizer with the settings that the job sets; other settings have the operator's
// defaults. The knob lars changes the type to lars_momentum, and the knob lamb changes it to lamb.
// Each of the two knobs adds its own settings.
graph::OptimizerSpec OptimizerSpecOf(const JobConfig& job);

}  // namespace tandem::trainer
