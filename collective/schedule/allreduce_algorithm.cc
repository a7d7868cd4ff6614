#include "collective/schedule/allreduce_algorithm.h"

namespace tandem::collective {

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

}  // namespace tandem::collective
