// `tandem plan` for machines that are not there: a job's steps over links of given figures.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collective/cost/step_simulator.h"
#include "deploy/cli/plan/plan_job.h"

namespace tandem::deploy {

struct SimulationRequest {
  CostModel model;
  RankLayout layout;   // the largest; ranks is a multiple of ranks_per_host
  double compute = 0;  // seconds of a step without communication
  int slow_rank = -1;  // of smaller layouts: modulo their ranks
  double slow_factor = 1;
};

// Seconds of an allreduce by each algorithm, in the order of kAllReduceAlgorithms; empty where it
// is none for such ranks, or too long to walk.
using AlgorithmSeconds = std::vector<std::optional<double>>;

// Where the least of them is. REQUIRES: at least one is there.
AllReduceAlgorithm BestOf(const AlgorithmSeconds& seconds);

struct ScalePoint {
  int ranks = 0, hosts = 0;
  std::vector<AlgorithmSeconds> buckets;  // each alone, from a common start
  AlgorithmSeconds all;                   // all buckets, one behind the other
  double step = 0;  // seconds; each bucket by its best algorithm, from when its gradients are there
};

struct Simulation {
  std::vector<ScalePoint> points;  // by ranks: one host, then twice as many each time, to the end
};

StatusOr<Simulation> Simulate(const PlanJob& job, const SimulationRequest& request);

std::string SimulationText(const PlanJob& job, const SimulationRequest& request,
                           const Simulation& simulation);
std::string SimulationJson(const PlanJob& job, const SimulationRequest& request,
                           const Simulation& simulation);
std::string SimulationSvg(const PlanJob& job, const SimulationRequest& request,
                          const Simulation& simulation);

}  // namespace tandem::deploy
