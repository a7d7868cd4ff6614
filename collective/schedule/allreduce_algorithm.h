// Names of the allreduce algorithms.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tandem::collective {

enum class AllReduceAlgorithm : uint8_t {
  kPair,     // two ranks exchange everything
  kDirect,   // all ranks send everything to all ranks
  kRing,     // reduce-scatter and gather around the ring
  kHalving,  // recursive halving and doubling
  kLeaders,  // HierarchyForm::kLeaders
  kShards,   // HierarchyForm::kShards
};
inline constexpr std::array kAllReduceAlgorithms = {
    AllReduceAlgorithm::kPair,    AllReduceAlgorithm::kDirect,  AllReduceAlgorithm::kRing,
    AllReduceAlgorithm::kHalving, AllReduceAlgorithm::kLeaders, AllReduceAlgorithm::kShards};
const char* Name(AllReduceAlgorithm algorithm);  // "pair", "direct", ...

// The algorithm for calls up to a size.
struct AllReduceChoice {
  size_t bytes_max = 0;
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::kRing;
};

}  // namespace tandem::collective
