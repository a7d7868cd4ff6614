// `tandem plan` for other machines. Simulates a job's steps over links that the user describes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collective/cost/step_simulator.h"
#include "deploy/cli/plan/plan_job.h"

namespace tandem::deploy {

struct SimulationRequest {
  collective::CostModel model;
  collective::RankLayout layout;  // the largest layout; its ranks are a multiple of ranks_per_host
  double compute = 0;             // seconds of a step without communication
  // The slow rank; smaller layouts use it modulo their number of ranks; -1: none.
  int slow_rank = -1;
  double slow_factor = 1;
};

// The seconds of an allreduce with each algorithm, in the order of kAllReduceAlgorithms. Nullopt:
// the algorithm is not possible for the ranks, or the simulation would take too long.
using AlgorithmSeconds = std::vector<std::optional<double>>;

// Returns the fastest algorithm. REQUIRES: at least one element has a value.
collective::AllReduceAlgorithm BestOf(const AlgorithmSeconds& seconds);

struct ScalePoint {
  int ranks = 0, hosts = 0;
  std::vector<AlgorithmSeconds> buckets;  // times of each bucket alone; all ranks start together
  AlgorithmSeconds all;                   // times of all buckets, one after another
  // Seconds of a step in which each bucket starts when its gradients are ready and uses its best
  // algorithm.
  double step = 0;
};

struct Simulation {
  std::vector<ScalePoint> points;  // points for one host, then doubled ranks, to the largest layout
};

StatusOr<Simulation> Simulate(const PlanJob& job, const SimulationRequest& request);

}  // namespace tandem::deploy
