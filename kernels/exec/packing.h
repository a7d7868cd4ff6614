// Where things lie in one arena: those whose lives do not meet share memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tandem {

// Something that is needed from operator `first` to operator `last`, both included.
struct Lifetime {
  size_t bytes;
  int first, last;
};

struct Packing {
  std::vector<size_t> offsets;  // in the order of the lifetimes, multiples of Device::kAlignment
  size_t bytes = 0;             // size of the arena
  const char* order = "";       // the order that gave it ("size")
};

// The smallest of several greedy packings, each of which takes the lifetimes in another order and
// puts every one where it meets nobody it lives with: at the lowest offset, or in the tightest gap.
// Orders by size and by breadth, and the tightest gap: Pisarchyk and Lee, "Efficient Memory
// Management for Deep Neural Net Inference", 2020. Deterministic; of equal ones the first is kept.
Packing PackArena(std::span<const Lifetime> lifetimes);

// The largest sum of bytes alive at once, each rounded up to the alignment: no packing is smaller.
size_t LargestLiveSum(std::span<const Lifetime> lifetimes);

}  // namespace tandem
