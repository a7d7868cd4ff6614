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
  // The simulated layout with the most ranks. Its number of ranks is a multiple of ranks_per_host.
  collective::RankLayout layout;
  double compute = 0;  // seconds of a step without communication
  // Number of the slow rank; -1: no rank is slow. In a layout with n ranks, rank slow_rank modulo n
  // is slow.
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
  // Times of each bucket's allreduce if it runs alone and all ranks start together.
  std::vector<AlgorithmSeconds> buckets;
  AlgorithmSeconds all;  // times of all buckets, one after another
  // Seconds of a step in which each bucket starts when its gradients are ready and uses its best
  // algorithm.
  double step = 0;
};

struct Simulation {
  // Points in ascending order of ranks: one host, then twice as many ranks for each point, then the
  // largest layout.
  std::vector<ScalePoint> points;
};

StatusOr<Simulation> Simulate(const PlanJob& job, const SimulationRequest& request);

}  // namespace tandem::deploy
