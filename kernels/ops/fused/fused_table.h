// What a generated kernel (fused_source.h) is given, by value: which elements there are, and where.
// The host and the code that is compiled at run time share it.
#pragma once

#include <cstdint>

namespace tandem {

inline constexpr int kFusedThreads = 256;    // of a block
inline constexpr int kFusedPack = 4;         // elements that a thread takes at once
inline constexpr int64_t kFusedTile = 2048;  // elements of one group that a block takes at once

// Tensors of one shape, and one-element ones, with which one code does something element by
// element.
struct FusedGroup {
  int64_t elements;
  uint32_t first_tile;  // so many tiles belong to groups before it
  uint16_t first;       // of its addresses
  uint8_t body;         // number of the code
  uint8_t packed;       // all its tensors begin at a multiple of 16 bytes
};

template <int kGroups, int kAddresses>
struct FusedTable {
  uint32_t groups, tiles;
  FusedGroup group[kGroups];
  void* at[kAddresses];
};

// Bytes of one: as many as a kernel's parameters may have (CUDA 12.1 and later), about.
inline constexpr int64_t kFusedTableMax = 32000;

}  // namespace tandem
