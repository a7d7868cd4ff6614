// The optimizer of a job: from OptimizerConfig (proto/job.proto) to kernels/graph/optimizer.h.
#pragma once

#include "common/strategy/origins.h"
#include "kernels/graph/optimizer.h"

namespace tandem {

class Diagnostics;
class OptimizerConfig;

// An unknown type (with the nearest one), a field that the type does not use, bad numbers.
void CheckOptimizer(const OptimizerConfig& config, const Origins& origins,
                    Diagnostics* diagnostics);

// The settings that the job gives; others keep the operator's defaults.
OptimizerSpec OptimizerSpecOf(const OptimizerConfig& config);

}  // namespace tandem
