// The innermost loops of f32 products on AMX tiles: turning matrices into tiles, multiplying panels
// of tiles. Chosen at run time (tile_gemm.h).
//
// Matrices are cut along k into steps of 32 and along their other side into panels of 32. A panel
// is, step after step, plane after plane, two tiles of 16 x 32 bf16 (1 KB each). A number has three
// planes: x = x1 + x2 + x3, each the nearest bf16 to what is left, which is exact. Of the nine
// products of two such numbers the six of order 2^-16 and more are added up, the small ones first;
// what is left out is below 2^-24 of the product. (G. Henry, P. T. P. Tang, A. Heinecke: Leveraging
// the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations, ARITH 2019.)
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem {

inline constexpr int64_t kTilePanel = 32;  // rows or columns of a panel, and k of a step
inline constexpr int64_t kTilePlanes = 3;
inline constexpr size_t kTileBytes = 1024;

// One side of a product, and how it lies in memory: [sides, k], or [k, sides] when k_strided.
struct TileSource {
  const float* data;
  int64_t stride;  // floats between two sides, or two k when k_strided
  bool k_strided;
};

// Where the sums of a panel of rows and a panel of columns begin.
enum class TileStart : uint8_t { kZero, kBias, kSums };

struct TileLoops {
  // Writes sides [0, sides) <= 32 and [0, k) of `source` as one panel; zeros fill it up. `columns`:
  // the panel is the second factor's.
  void (*pack)(const TileSource& source, int64_t sides, int64_t k, bool columns, void* panel);
  // sums [32, 32] with `stride` (floats) = start + rows columns, over `steps` of k; kBias: `bias`
  // [32] is in each row. REQUIRES: between begin and end of this thread.
  void (*multiply)(const void* rows, const void* columns, int64_t steps, TileStart start,
                   const float* bias, float* sums, int64_t stride);
  // Sets up and gives back this thread's tiles.
  void (*begin)();
  void (*end)();
};

// nullptr when the processor or the kernel has no AMX with bf16.
const TileLoops* AmxTileLoops();

}  // namespace tandem
