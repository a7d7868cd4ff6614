// Packs blocks of memory into one arena. Blocks that are never needed at the same time may share
// memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tandem::exec {

// A block of memory that is needed from operator `first` to operator `last`, both included.
struct Lifetime {
  size_t bytes;
  int first, last;
};

struct Packing {
  // By block, in the order of the lifetimes: the offset in bytes, a multiple of Device::kAlignment.
  std::vector<size_t> offsets;
  size_t bytes = 0;        // size of the arena in bytes
  const char* order = "";  // name of the order in which the blocks were placed ("size")
};

// Returns the smallest of several greedy packings, each with another order of the blocks. A packing
// puts each block at the lowest free offset or into the tightest free gap. Source of the orders by
// size and by breadth, and of the tightest gap: Pisarchyk and Lee, "Efficient Memory Management for
// Deep Neural Net Inference", 2020. Deterministic: of several equally small packings, returns the
// first.
Packing PackArena(std::span<const Lifetime> lifetimes);

// Returns the largest sum of bytes that are needed at the same time, each block rounded up to the
// alignment. No packing has fewer bytes.
size_t LargestLiveSum(std::span<const Lifetime> lifetimes);

}  // namespace tandem::exec
