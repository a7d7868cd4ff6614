// What an allreduce takes by each algorithm among the ranks of a job, wherever they are: measured
// at a few sizes on the job's own network. What allreduce_choice asks.
#pragma once

#include <cstddef>
#include <vector>

#include "collective/cost/cost_model.h"
#include "collective/host/host_communicator.h"
#include "collective/rendezvous/rendezvous.h"
#include "collective/schedule/algorithms.h"

namespace tandem {

struct AlgorithmCost {
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::kRing;
  PiecewiseLinearCost line;
};

// What an allreduce of `bytes` needs beside the buffer that is reduced.
size_t ScratchBytes(AllReduceAlgorithm algorithm, int ranks, size_t bytes);

// The sizes at which ProbeAlgorithms measures, in their order: two at least, or none for an
// algorithm that needs too much memory.
std::vector<size_t> ProbeSizes(AllReduceAlgorithm algorithm, int ranks, size_t bytes_max);

// Joins `world` once for each algorithm that serves its ranks in groups of config.rule.group and
// has ProbeSizes, and measures (f32 sums in place) up to about `bytes_max`. All ranks call it
// together and get the same. `budget` is for each algorithm; large calls may take more, as each is
// made a few times.
StatusOr<std::vector<AlgorithmCost>> ProbeAlgorithms(const WorldConfig& world,
                                                     const HostCommunicatorConfig& config,
                                                     size_t bytes_max, Duration budget);

// For calls of these sizes the fastest, as limits for AllReduceRule::choices. An algorithm
// that needs more than `memory_max` bytes beside the buffer is left out.
std::vector<AllReduceChoice> FastestOf(const std::vector<AlgorithmCost>& costs,
                                       std::vector<size_t> sizes, int ranks, size_t memory_max);

}  // namespace tandem
