// The algorithms of an allreduce by name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tandem {

enum class AllReduceAlgorithm : uint8_t {
  kPair,     // two ranks exchange everything
  kDirect,   // everybody sends everything to everybody
  kRing,     // reduce-scatter and gather around the ring
  kHalving,  // recursive halving and doubling
  kLeaders,  // HierarchyForm::kLeaders
  kShards,   // HierarchyForm::kShards
};
inline constexpr std::array kAllReduceAlgorithms = {
    AllReduceAlgorithm::kPair,    AllReduceAlgorithm::kDirect,  AllReduceAlgorithm::kRing,
    AllReduceAlgorithm::kHalving, AllReduceAlgorithm::kLeaders, AllReduceAlgorithm::kShards};
const char* Name(AllReduceAlgorithm algorithm);  // "pair", "direct", ...

// What serves calls up to a size.
struct AllReduceChoice {
  size_t bytes_max = 0;
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::kRing;
};

}  // namespace tandem
