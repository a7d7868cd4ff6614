// Matrix products of f32 on AMX tiles, which multiply bf16. An f32 number is a sum of three bf16
// numbers, and a product needs six tile products (tile_loops.h).
//
// Measured on Sapphire Rapids, one core: tiles compute 2.7 TFLOP/s of bf16, or 2.1 with operands
// from the L1 cache. This limits f32 to 380 GFLOP/s; AVX-512 reaches 110 to 130. The error as a
// share of the sum of |a b| is 1.2e-8 rms, and below 1e-7 for k up to 4096.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/status.h"
#include "kernels/ops/cpu/tile_loops.h"

namespace tandem {

// C [m, n] = alpha op(A) op(B), or op(A) op(B) + bias; row-major and dense. op(A) is [m, k], op(B)
// is [k, n]. The order of the sums depends only on k, so the bits depend neither on the number of
// threads nor on m and n. An infinity in A or B, or a number above 3.39e38, gives NaN. Numbers
// below 1e-33 lose precision. Thread-safe.
class TileGemm {
 public:
  struct Sizes {
    int64_t m, n, k;
    bool trans_a, trans_b;  // A is stored as [k, m], B as [n, k]
    float alpha = 1.0f;
    int threads = 1;
  };

  // UNIMPLEMENTED: there is no AMX, or the product is too small to be faster with it.
  static StatusOr<TileGemm> Make(const Sizes& sizes);

  size_t scratch_bytes() const;  // aligned to 64
  // `bias`: [n], or nullptr. REQUIRES: bias is nullptr or alpha is 1.
  void Run(const float* a, const float* b, const float* bias, float* c, void* scratch) const;

 private:
  struct Operands {
    const float *a, *b, *bias;
    float* c;
  };
  // The part of the operands that is packed at a time. All threads together pack columns. Each
  // thread packs the rows that it uses.
  struct Block {
    int64_t k, k_end, column, column_end;  // columns are counted in panels
  };

  size_t PanelBytes() const;
  void PackRows(const Operands& o, const Block& block, int64_t panel, void* to) const;
  void PackColumns(const Operands& o, const Block& block, int64_t panel, void* to) const;
  // Multiplies the block for the row panels [begin, end), at most row_block_ panels.
  void Multiply(const Operands& o, const Block& block, int64_t begin, int64_t end,
                const std::byte* columns, std::byte* rows) const;
  void MultiplyPanels(const Operands& o, const Block& block, int64_t row, int64_t column,
                      const std::byte* rows, const std::byte* columns) const;

  const TileLoops* loops_ = nullptr;
  Sizes s_{};
  int parts_ = 1;
  int64_t row_panels_ = 0, column_panels_ = 0;
  // Most k, most column panels, and most row panels per thread that are packed at a time.
  int64_t k_block_ = 0, column_block_ = 0, row_block_ = 0;
};

}  // namespace tandem
