// Where the temporaries of a plan lie: variables whose lives do not meet share memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tandem {

// A temporary: needed from operator `first` (which writes it) to operator `last`, both included.
struct Lifetime {
  size_t bytes;
  int first, last;
};

struct Packing {
  std::vector<size_t> offsets;  // in the order of the lifetimes, multiples of Device::kAlignment
  size_t bytes = 0;             // size of the arena
  size_t bytes_min = 0;         // largest sum of bytes alive at once: no packing can be smaller
};

// Greedy by size: the largest first, each at the lowest offset where it meets nobody it lives with
// (Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
Packing PackArena(std::span<const Lifetime> lifetimes);

}  // namespace tandem
