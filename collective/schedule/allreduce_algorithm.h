// The allreduce algorithms and their names.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tandem::collective {

enum class AllReduceAlgorithm : uint8_t {
  kPair,     // two ranks exchange all data
  kDirect,   // all ranks send all data to all ranks
  kRing,     // a reduce-scatter and an all-gather around the ring
  kHalving,  // recursive halving and doubling
  kLeaders,  // hierarchical, in the form HierarchyForm::kLeaders
  kShards,   // hierarchical, in the form HierarchyForm::kShards
};
inline constexpr std::array kAllReduceAlgorithms = {
    AllReduceAlgorithm::kPair,    AllReduceAlgorithm::kDirect,  AllReduceAlgorithm::kRing,
    AllReduceAlgorithm::kHalving, AllReduceAlgorithm::kLeaders, AllReduceAlgorithm::kShards};
// Returns the name of an algorithm, such as "pair" or "direct".
const char* Name(AllReduceAlgorithm algorithm);

// The algorithm for calls of up to bytes_max bytes.
struct AllReduceChoice {
  size_t bytes_max = 0;
  AllReduceAlgorithm algorithm = AllReduceAlgorithm::kRing;
};

}  // namespace tandem::collective
