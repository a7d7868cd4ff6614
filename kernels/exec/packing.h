// Packs blocks of memory into one arena. Blocks whose lifetimes do not overlap may share memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tandem {

// A block that is needed from operator `first` to operator `last`, both included.
struct Lifetime {
  size_t bytes;
  int first, last;
};

struct Packing {
  std::vector<size_t> offsets;  // in the order of the lifetimes, multiples of Device::kAlignment
  size_t bytes = 0;             // size of the arena
  const char* order = "";       // name of the sort order that gave this packing ("size")
};

// Returns the smallest of several greedy packings. Each uses another order of the lifetimes. It
// places each block where it overlaps no block that is alive at the same time: at the lowest offset
// or in the tightest gap. Source of the orders by size and by breadth and of the tightest gap:
// Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020.
// Deterministic; among equal packings the first is returned.
Packing PackArena(std::span<const Lifetime> lifetimes);

// Returns the largest sum of bytes alive at once, each rounded up to the alignment. No packing is
// smaller.
size_t LargestLiveSum(std::span<const Lifetime> lifetimes);

}  // namespace tandem
