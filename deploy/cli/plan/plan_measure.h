// `tandem plan` on this machine: what a model fitted by a short probe predicts for each bucket of
// a job, and what is measured.
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
  std::optional<double> measured;  // none: too large for this
  bool best = false;               // of the predicted
  bool chosen = false;             // by the job
};

struct MeasuredPlan {
  int ranks = 0;
  CostModel tcp;
  SharedMemoryCost memory;
  double probe = 0;                                   // seconds
  std::vector<std::vector<AlgorithmTiming>> buckets;  // of the job, in its order
};

StatusOr<MeasuredPlan> MeasurePlan(const PlanJob& job, int ranks);

std::string MeasuredText(const PlanJob& job, const MeasuredPlan& plan);
std::string MeasuredJson(const PlanJob& job, const MeasuredPlan& plan);
std::string MeasuredSvg(const PlanJob& job, const MeasuredPlan& plan);

}  // namespace tandem::deploy
