#include "collective/cost/algorithm_probe.h"

#include <algorithm>

#include "collective/cost/cost_probe.h"
#include "collective/host/connect.h"

namespace tandem::collective {
namespace {

constexpr size_t kSizes[] = {8, 64 << 10, 1 << 20, 16 << 20};

}  // namespace

size_t ScratchBytes(AllReduceAlgorithm algorithm, int ranks, size_t bytes) {
  return algorithm == AllReduceAlgorithm::kDirect ? static_cast<size_t>(ranks) * bytes : 0;
}

std::vector<size_t> ProbeSizes(AllReduceAlgorithm algorithm, int ranks, size_t bytes_max) {
  std::vector<size_t> sizes;
  for (const size_t bytes : kSizes) {
    const bool needed = sizes.size() < 2 || sizes.back() < bytes_max;
    if (!needed || ScratchBytes(algorithm, ranks, bytes) > kProbeBytesMax) break;
    sizes.push_back(bytes);
  }
  if (sizes.size() < 2) sizes.clear();  // a line needs at least two points
  return sizes;
}

StatusOr<std::vector<AlgorithmCost>> ProbeAlgorithms(const WorldConfig& world,
                                                     const HostCommunicatorConfig& config,
                                                     size_t bytes_max, Duration budget) {
  std::vector<AlgorithmCost> costs;
  for (const AllReduceAlgorithm algorithm : kAllReduceAlgorithms) {
    const std::vector<size_t> sizes = ProbeSizes(algorithm, world.size, bytes_max);
    if (!Serves(algorithm, world.size, config.rule.group) || sizes.empty()) continue;
    HostCommunicatorConfig tried = config;
    tried.rule = Always(algorithm, config.rule.group);
    TD_ASSIGN_OR_RETURN(const auto communicator,
                        Connect(world, tried, {.carrier = TransportKind::kTcp}));
    AlgorithmCost& cost = costs.emplace_back(AlgorithmCost{algorithm, {}});
    for (const size_t bytes : sizes) {
      const Duration each = budget / std::size(kSizes);
      TD_ASSIGN_OR_RETURN(const double seconds, TimeAllReduce(*communicator, bytes, each));
      cost.line.points.emplace_back(bytes, seconds);
    }
    // This barrier ends after rank 0 has closed its listening socket. So no rank uses this socket
    // to join the world of the next algorithm.
    TD_RETURN_IF_ERROR(communicator->Call({}));
  }
  return costs;
}

std::vector<AllReduceChoice> FastestOf(const std::vector<AlgorithmCost>& costs,
                                       std::vector<size_t> sizes, int ranks, size_t memory_max) {
  std::sort(sizes.begin(), sizes.end());
  std::vector<AllReduceChoice> choices;
  for (const size_t bytes : sizes) {
    const AlgorithmCost* best = nullptr;
    for (const AlgorithmCost& cost : costs) {
      if (ScratchBytes(cost.algorithm, ranks, bytes) > memory_max) continue;
      if (best == nullptr || cost.line.Seconds(bytes) < best->line.Seconds(bytes)) best = &cost;
    }
    if (best == nullptr) continue;
    const bool same = !choices.empty() && choices.back().algorithm == best->algorithm;
    if (same) choices.pop_back();
    choices.push_back({bytes, best->algorithm});
  }
  return choices;
}

}  // namespace tandem::collective
