// Measures how long an allreduce takes with each algorithm, among the ranks of a job on the job's
// own network. The strategy option allreduce_choice uses the result.
#pragma once

#include <cstddef>
#include <vector>

#include "collective/cost/cost_model.h"
#include "collective/host/host_communicator.h"
#include "collective/rendezvous/rendezvous.h"
#include "collective/schedule/algorithms.h"

namespace tandem::collective {

struct AlgorithmCost {
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::kRing;
  PiecewiseLinearCost line;
};

// Returns the scratch memory in bytes that an allreduce of `bytes` bytes needs besides its buffer.
size_t ScratchBytes(AllReduceAlgorithm algorithm, int ranks, size_t bytes);

// Returns the sizes in bytes that ProbeAlgorithms measures, in this order. The list has at least
// two sizes. It is empty if the algorithm needs too much memory for two sizes.
std::vector<size_t> ProbeSizes(AllReduceAlgorithm algorithm, int ranks, size_t bytes_max);

// Measures f32 sums in place of up to about `bytes_max` bytes. Joins `world` once for each
// algorithm whose ProbeSizes are not empty and that supports groups of config.rule.group ranks
// (Serves). All ranks must call the function together, and get the same result. `budget` is the
// time for each algorithm. Measurements of large sizes may exceed the budget, because each call is
// repeated a few times.
StatusOr<std::vector<AlgorithmCost>> ProbeAlgorithms(const WorldConfig& world,
                                                     const HostCommunicatorConfig& config,
                                                     size_t bytes_max, Duration budget);

// Returns the fastest algorithm for each of `sizes` (bytes), in the form of AllReduceRule::choices.
// Ignores algorithms that need more than `memory_max` bytes of scratch memory for the size.
std::vector<AllReduceChoice> FastestOf(const std::vector<AlgorithmCost>& costs,
                                       std::vector<size_t> sizes, int ranks, size_t memory_max);

}  // namespace tandem::collective
