// `tandem plan` for this machine. Fits a cost model to short measurements, and compares the model's
// prediction for each gradient bucket with a measured time.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collective/cost/cost_probe.h"
#include "deploy/cli/plan/plan_job.h"

namespace tandem::deploy {

struct AlgorithmTiming {
  std::string name;                // name of a TCP algorithm, such as "ring", or "shared memory"
  double predicted = 0;            // predicted time in seconds
  std::optional<double> measured;  // measured time in seconds; nullopt: the bucket is too large
  bool best = false;               // true: this algorithm has the best prediction
  bool chosen = false;             // true: the job chooses this algorithm
};

struct MeasuredPlan {
  int ranks = 0;
  collective::CostModel tcp;
  collective::SharedMemoryCost memory;
  double probe = 0;  // duration of the measurements for the model, in seconds
  // Timings of each bucket, in the order of PlanJob::buckets.
  std::vector<std::vector<AlgorithmTiming>> buckets;
};

StatusOr<MeasuredPlan> MeasurePlan(const PlanJob& job, int ranks);

std::string MeasuredText(const PlanJob& job, const MeasuredPlan& plan);
std::string MeasuredJson(const PlanJob& job, const MeasuredPlan& plan);
std::string MeasuredSvg(const PlanJob& job, const MeasuredPlan& plan);

}  // namespace tandem::deploy
