// The innermost loops of f32 products on AMX tiles: packing matrices into tiles, and multiplying
// panels of tiles. tile_gemm.h selects them at run time.
//
// Matrices are split along k into steps of 32, and along their other dimension ("sides") into
// panels of 32. An f32 number x is split into three planes of bf16: x = x1 + x2 + x3. Each plane is
// the bf16 nearest to the remainder, and the sum is exact. A panel stores two tiles of 16 x 32 bf16
// (1 KB each) per step and plane. The product of two split numbers has nine terms. Six terms, of
// order 2^-16 and more, are added, small ones first. The other three are below 2^-24 of the
// product. Source: G. Henry, P. T. P. Tang, A. Heinecke: Leveraging the bfloat16 Artificial
// Intelligence Datatype For Higher-Precision Computations, ARITH 2019.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::ops {

// The number of sides (rows or columns) in a panel, and of k values in a step.
inline constexpr int64_t kTilePanel = 32;
inline constexpr int64_t kTilePlanes = 3;
inline constexpr size_t kTileBytes = 1024;

// One factor of a product in memory, stored as [sides, k], or as [k, sides] if k_strided. A side is
// a row of the first factor or a column of the second.
struct TileSource {
  const float* data;
  // The number of floats from one side to the next, or from one k to the next if k_strided.
  int64_t stride;
  bool k_strided;
};

// The initial value of the sums when a row panel and a column panel are multiplied.
enum class TileStart : uint8_t { kZero, kBias, kSums };

struct TileLoops {
  // Packs sides [0, sides), at most 32, and k values [0, k) of `source` as one panel, and fills the
  // rest of the panel with zeros. `columns`: true if the panel belongs to the second factor.
  void (*pack)(const TileSource& source, int64_t sides, int64_t k, bool columns, void* panel);
  // Computes sums [32, 32] = start + rows * columns, over `steps` steps of k. `stride` is the
  // number of floats from one row of sums to the next. kBias: each row starts with `bias` [32].
  // REQUIRES: this thread has called begin, and not yet end.
  void (*multiply)(const void* rows, const void* columns, int64_t steps, TileStart start,
                   const float* bias, float* sums, int64_t stride);
  // begin configures the tile registers for this thread, and end releases them.
  void (*begin)();
  void (*end)();
};

// Returns the loops for AMX. nullptr: the processor or the operating system's kernel does not
// support AMX with bf16.
const TileLoops* AmxTileLoops();

}  // namespace tandem::ops
