// `tandem plan` on this machine: fits a model with a short probe, and compares its prediction for
// each gradient bucket with measurements.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collective/cost/cost_probe.h"
#include "deploy/cli/plan/plan_job.h"

namespace tandem::deploy {

struct AlgorithmTiming {
  std::string name;                // "ring", ...: over TCP; "shared memory"
  double predicted = 0;            // seconds
  std::optional<double> measured;  // seconds; nullopt: too large to measure
  bool best = false;               // best prediction
  bool chosen = false;             // the job's choice
};

struct MeasuredPlan {
  int ranks = 0;
  collective::CostModel tcp;
  collective::SharedMemoryCost memory;
  double probe = 0;                                   // duration of the probe, seconds
  std::vector<std::vector<AlgorithmTiming>> buckets;  // buckets of the job, in order
};

StatusOr<MeasuredPlan> MeasurePlan(const PlanJob& job, int ranks);

std::string MeasuredText(const PlanJob& job, const MeasuredPlan& plan);
std::string MeasuredJson(const PlanJob& job, const MeasuredPlan& plan);
std::string MeasuredSvg(const PlanJob& job, const MeasuredPlan& plan);

}  // namespace tandem::deploy
