#include "collective/algorithms.h"

#include <limits>

#include "collective/hierarchy.h"
#include "collective/ring.h"
#include "common/base/check.h"

namespace tandem {

const char* Name(AllReduceAlgorithm algorithm) {
  switch (algorithm) {
    case AllReduceAlgorithm::kPair:
      return "pair";
    case AllReduceAlgorithm::kDirect:
      return "direct";
    case AllReduceAlgorithm::kRing:
      return "ring";
    case AllReduceAlgorithm::kHalving:
      return "halving";
    case AllReduceAlgorithm::kLeaders:
      return "leaders";
    case AllReduceAlgorithm::kShards:
      return "shards";
  }
  return "?";
}

bool Serves(AllReduceAlgorithm algorithm, int size, int group) {
  switch (algorithm) {
    case AllReduceAlgorithm::kPair:
      return size == 2;
    case AllReduceAlgorithm::kDirect:
    case AllReduceAlgorithm::kRing:
    case AllReduceAlgorithm::kHalving:
      return size >= 1;
    case AllReduceAlgorithm::kLeaders:
    case AllReduceAlgorithm::kShards:
      return group > 1 && size > group && size % group == 0;
  }
  return false;
}

AllReduceAlgorithm ChooseAllReduce(const HostCommunicatorConfig& config, int size, size_t bytes) {
  for (const AllReduceChoice& choice : config.choices) {
    if (bytes <= choice.bytes_max && !config.tree_order) return choice.algorithm;
  }
  if (size == 2 && bytes <= config.pair_bytes_max) return AllReduceAlgorithm::kPair;
  if (bytes <= config.direct_bytes_max && size <= config.direct_ranks_max) {
    return AllReduceAlgorithm::kDirect;
  }
  if (config.tree_order) return AllReduceAlgorithm::kHalving;
  if (config.group <= 1 || size <= config.group) return AllReduceAlgorithm::kRing;
  return config.form == HierarchyForm::kLeaders ? AllReduceAlgorithm::kLeaders
                                                : AllReduceAlgorithm::kShards;
}

HostCommunicatorConfig Always(AllReduceAlgorithm algorithm, int group,
                              HostCommunicatorConfig config) {
  const bool hierarchical =
      algorithm == AllReduceAlgorithm::kLeaders || algorithm == AllReduceAlgorithm::kShards;
  constexpr size_t kAny = std::numeric_limits<size_t>::max();
  config.choices.clear();
  config.pair_bytes_max = algorithm == AllReduceAlgorithm::kPair ? kAny : 0;
  config.direct_bytes_max = algorithm == AllReduceAlgorithm::kDirect ? kAny : 0;
  config.direct_ranks_max =
      algorithm == AllReduceAlgorithm::kDirect ? std::numeric_limits<int>::max() : 0;
  config.tree_order = algorithm == AllReduceAlgorithm::kHalving;
  config.group = hierarchical ? group : 1;
  config.form =
      algorithm == AllReduceAlgorithm::kLeaders ? HierarchyForm::kLeaders : HierarchyForm::kShards;
  return config;
}

Schedule AllReduceSchedule(AllReduceAlgorithm algorithm, int rank, int size, int group,
                           size_t count, size_t element_bytes) {
  CHECK(Serves(algorithm, size, group)) << Name(algorithm) << " of " << size << " by " << group;
  switch (algorithm) {
    case AllReduceAlgorithm::kPair:
      return PairAllReduce(rank, count * element_bytes);
    case AllReduceAlgorithm::kDirect:
      return DirectAllGather(rank, size, count * element_bytes);
    case AllReduceAlgorithm::kRing:
      return RingAllReduce(rank, size, count, element_bytes);
    case AllReduceAlgorithm::kHalving:
      return HalvingDoublingAllReduce(rank, size, count, element_bytes);
    case AllReduceAlgorithm::kLeaders:
    case AllReduceAlgorithm::kShards:
      return HierarchicalAllReduce(algorithm == AllReduceAlgorithm::kLeaders
                                       ? HierarchyForm::kLeaders
                                       : HierarchyForm::kShards,
                                   rank, size, group, count, element_bytes);
  }
  return {};
}

bool AddsTree(AllReduceAlgorithm algorithm) {
  return algorithm == AllReduceAlgorithm::kPair || algorithm == AllReduceAlgorithm::kDirect ||
         algorithm == AllReduceAlgorithm::kHalving;
}

Schedule ReduceScatterSchedule(AllReduceAlgorithm algorithm, int rank, int size, int group,
                               size_t count, size_t element_bytes) {
  CHECK(Serves(algorithm, size, group)) << Name(algorithm) << " of " << size << " by " << group;
  const auto ranks = static_cast<size_t>(size);
  CHECK_EQ(count % ranks, size_t{0});
  if (AddsTree(algorithm)) return PairwiseAllToAll(rank, size, count / ranks * element_bytes);
  if (algorithm == AllReduceAlgorithm::kRing) {
    return RingReduceScatter(rank, size, count, element_bytes);
  }
  return HierarchicalReduceScatter(
      algorithm == AllReduceAlgorithm::kLeaders ? HierarchyForm::kLeaders : HierarchyForm::kShards,
      rank, size, group, count, element_bytes);
}

}  // namespace tandem
