#include "collective/schedule/algorithms.h"

#include <limits>

#include "collective/schedule/halving.h"
#include "collective/schedule/hierarchy.h"
#include "collective/schedule/ring.h"
#include "common/base/check.h"
#include "common/base/require.h"

namespace tandem::collective {

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

AllReduceAlgorithm ChooseAllReduce(const AllReduceRule& rule, int size, size_t bytes) {
  for (const AllReduceChoice& choice : rule.choices) {
    if (bytes <= choice.bytes_max && !rule.tree_order) return choice.algorithm;
  }
  if (size == 2 && bytes <= rule.pair_bytes_max) return AllReduceAlgorithm::kPair;
  if (bytes <= rule.direct_bytes_max && size <= rule.direct_ranks_max) {
    return AllReduceAlgorithm::kDirect;
  }
  if (rule.tree_order) return AllReduceAlgorithm::kHalving;
  if (rule.group <= 1 || size <= rule.group) return AllReduceAlgorithm::kRing;
  return rule.form == HierarchyForm::kLeaders ? AllReduceAlgorithm::kLeaders
                                              : AllReduceAlgorithm::kShards;
}

AllReduceRule Always(AllReduceAlgorithm algorithm, int group) {
  const bool hierarchical =
      algorithm == AllReduceAlgorithm::kLeaders || algorithm == AllReduceAlgorithm::kShards;
  TD_REQUIRE(!hierarchical || group > 1);
  constexpr size_t kAny = std::numeric_limits<size_t>::max();
  AllReduceRule rule;
  rule.pair_bytes_max = algorithm == AllReduceAlgorithm::kPair ? kAny : 0;
  rule.direct_bytes_max = algorithm == AllReduceAlgorithm::kDirect ? kAny : 0;
  rule.direct_ranks_max =
      algorithm == AllReduceAlgorithm::kDirect ? std::numeric_limits<int>::max() : 0;
  rule.tree_order = algorithm == AllReduceAlgorithm::kHalving;
  rule.group = hierarchical ? group : 1;
  rule.form =
      algorithm == AllReduceAlgorithm::kLeaders ? HierarchyForm::kLeaders : HierarchyForm::kShards;
  return rule;
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

}  // namespace tandem::collective
