// The innermost loops of f32 products on AMX tiles: packing matrices into tiles and multiplying
// panels of tiles. Selected at run time (tile_gemm.h).
//
// Matrices are split along k into steps of 32, and along the other side into panels of 32. A panel
// stores, for each step and each plane, two tiles of 16 x 32 bf16 (1 KB each). A number has three
// planes: x = x1 + x2 + x3. Each is the bf16 nearest to the remainder; the sum is exact. The
// product of two such numbers has nine terms. The six terms of order 2^-16 and more are added,
// small ones first. The others are below 2^-24 of the product. Source: G. Henry, P. T. P. Tang, A.
// Heinecke: Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
// Computations, ARITH 2019.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem {

inline constexpr int64_t kTilePanel = 32;  // rows or columns of a panel; k of a step
inline constexpr int64_t kTilePlanes = 3;
inline constexpr size_t kTileBytes = 1024;

// One factor of a product in memory: [sides, k], or [k, sides] if k_strided.
struct TileSource {
  const float* data;
  int64_t stride;  // floats between two sides, or between two k if k_strided
  bool k_strided;
};

// Initial value of the sums of a row panel and a column panel.
enum class TileStart : uint8_t { kZero, kBias, kSums };

struct TileLoops {
  // Writes sides [0, sides), at most 32, and [0, k) of `source` as one panel, filled up with zeros.
  // `columns`: the panel belongs to the second factor.
  void (*pack)(const TileSource& source, int64_t sides, int64_t k, bool columns, void* panel);
  // sums [32, 32], with row distance `stride` (floats), = start + rows columns, over `steps` steps
  // of k. kBias: each row starts with `bias` [32]. REQUIRES: called between begin and end of this
  // thread.
  void (*multiply)(const void* rows, const void* columns, int64_t steps, TileStart start,
                   const float* bias, float* sums, int64_t stride);
  // Configure and release the tiles of this thread.
  void (*begin)();
  void (*end)();
};

// nullptr: the processor or the kernel does not support AMX with bf16.
const TileLoops* AmxTileLoops();

}  // namespace tandem
