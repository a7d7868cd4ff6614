// `tandem plan` for other machines: simulates a job's steps over links with given costs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collective/cost/step_simulator.h"
#include "deploy/cli/plan/plan_job.h"

namespace tandem::deploy {

struct SimulationRequest {
  collective::CostModel model;
  collective::RankLayout layout;  // the largest layout; ranks is a multiple of ranks_per_host
  double compute = 0;             // seconds of a step without communication
  int slow_rank = -1;             // in smaller layouts: modulo their ranks
  double slow_factor = 1;
};

// Seconds of an allreduce by each algorithm, in the order of kAllReduceAlgorithms. Nullopt: not
// applicable to these ranks, or too long to simulate.
using AlgorithmSeconds = std::vector<std::optional<double>>;

// The fastest algorithm. REQUIRES: at least one value.
collective::AllReduceAlgorithm BestOf(const AlgorithmSeconds& seconds);

struct ScalePoint {
  int ranks = 0, hosts = 0;
  std::vector<AlgorithmSeconds> buckets;  // each alone; all ranks start together
  AlgorithmSeconds all;                   // all buckets, one after another
  double step = 0;  // seconds; each bucket uses its best algorithm once its gradients are ready
};

struct Simulation {
  std::vector<ScalePoint> points;  // by ranks: one host, then doubled each time, to the largest
};

StatusOr<Simulation> Simulate(const PlanJob& job, const SimulationRequest& request);

}  // namespace tandem::deploy
