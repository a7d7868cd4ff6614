// The argument of a generated kernel (fused_source.h), passed by value: the groups of elements and
// their addresses. Shared by the host and the code that is compiled at run time.
#pragma once

#include <cstdint>

namespace tandem {

inline constexpr int kFusedThreads = 256;    // threads of a block
inline constexpr int kFusedPack = 4;         // elements that a thread processes at once
inline constexpr int64_t kFusedTile = 2048;  // elements of one group that a block processes at once

// Tensors of one shape, and one-element tensors, that one piece of code processes element by
// element.
struct FusedGroup {
  int64_t elements;
  uint32_t first_tile;  // number of tiles of the groups before it
  uint16_t first;       // index of its first address
  uint8_t body;         // number of its code
  uint8_t packed;       // all its tensors begin at a multiple of 16 bytes
};

template <int kGroups, int kAddresses>
struct FusedTable {
  uint32_t groups, tiles;
  FusedGroup group[kGroups];
  void* at[kAddresses];
};

// Largest size of a table in bytes: about the limit of a kernel's parameters (CUDA 12.1 and later).
inline constexpr int64_t kFusedTableMax = 32000;

}  // namespace tandem
