// The argument of a generated kernel (fused_source.h), passed by value: the groups of elements and
// the addresses of their tensors. The host and the code that is compiled at run time include this
// header.
#pragma once

#include <cstdint>

namespace tandem::ops {

inline constexpr int kFusedThreads = 256;  // number of threads per block
inline constexpr int kFusedPack = 4;       // number of elements that a thread processes at once
// The number of elements of one group that a block processes at once (a tile).
inline constexpr int64_t kFusedTile = 2048;

// A group of tensors of one shape, and of tensors of one element. One generated function processes
// the tensors of the group element by element.
struct FusedGroup {
  int64_t elements;
  uint32_t first_tile;  // number of tiles in all previous groups
  uint16_t first;       // index of the group's first address
  uint8_t body;         // number of the group's code
  uint8_t packed;       // 1 if all tensors of the group begin at a multiple of 16 bytes, else 0
};

template <int kGroups, int kAddresses>
struct FusedTable {
  uint32_t groups, tiles;
  FusedGroup group[kGroups];
  void* at[kAddresses];
};

// Largest size of a table in bytes, about the limit of kernel parameters (CUDA 12.1 and later).
inline constexpr int64_t kFusedTableMax = 32000;

}  // namespace tandem::ops
