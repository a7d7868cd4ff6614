// Measures the time of an allreduce by each algorithm, among the ranks of a job on the job's own
// network. allreduce_choice uses it.
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

// Bytes that an allreduce of `bytes` needs in addition to the reduced buffer.
size_t ScratchBytes(AllReduceAlgorithm algorithm, int ranks, size_t bytes);

// The sizes that ProbeAlgorithms measures, in this order: at least two, or none for an algorithm
// that needs too much memory.
std::vector<size_t> ProbeSizes(AllReduceAlgorithm algorithm, int ranks, size_t bytes_max);

// Measures f32 sums in place up to about `bytes_max`. Joins `world` once for each algorithm that
// has ProbeSizes and serves the ranks in groups of config.rule.group. All ranks must call it
// together and get the same result. `budget` applies to each algorithm; large calls may exceed it,
// because each is made a few times.
StatusOr<std::vector<AlgorithmCost>> ProbeAlgorithms(const WorldConfig& world,
                                                     const HostCommunicatorConfig& config,
                                                     size_t bytes_max, Duration budget);

// Chooses the fastest algorithm for calls of these sizes, as limits for AllReduceRule::choices.
// Leaves out algorithms that need more than `memory_max` bytes in addition to the buffer.
std::vector<AllReduceChoice> FastestOf(const std::vector<AlgorithmCost>& costs,
                                       std::vector<size_t> sizes, int ranks, size_t memory_max);

}  // namespace tandem::collective
