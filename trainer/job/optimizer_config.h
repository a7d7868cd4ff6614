// The optimizer of a job: from OptimizerConfig (proto/job.proto) to kernels/graph/optimizer.h.
#pragma once

#include "common/strategy/origins.h"
#include "kernels/graph/optimizer.h"

namespace tandem {

class Diagnostics;
class JobConfig;

// An unknown type (with the nearest one), a field that the type does not use, bad numbers; a
// strategy's lars without momentum, or lamb without adam.
void CheckOptimizer(const JobConfig& job, const Origins& origins, Diagnostics* diagnostics);

// The settings that the job gives; others keep the operator's defaults. The strategy's lars turns
// momentum into lars_momentum, its lamb adam into lamb, with the settings of their own.
OptimizerSpec OptimizerSpecOf(const JobConfig& job);

}  // namespace tandem
