// Matrix products of f32 on AMX tiles, which multiply bf16: a number is the sum of three of them, a
// product six of theirs (tile_loops.h).
//
// Measured on Sapphire Rapids, one core: tiles multiply 2.7 TFLOP/s of bf16, 2.1 with operands from
// the L1 cache, so that 380 GFLOP/s of f32 are to be had; AVX-512 has 110 to 130. The error, as a
// share of the sum of |a b|, is 1.2e-8 rms and below 1e-7 for k up to 4096.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/status.h"
#include "kernels/ops/cpu/tile_loops.h"

namespace tandem {

// C [m, n] = alpha op(A) op(B), or op(A) op(B) + bias; row-major and dense; op(A) is [m, k], op(B)
// [k, n]. The order of the sums depends on k alone, so bits depend neither on the number of threads
// nor on m and n. An infinity in A or B, or a number above 3.39e38, gives NaN; numbers below 1e-33
// lose precision. Thread-safe.
class TileGemm {
 public:
  struct Sizes {
    int64_t m, n, k;
    bool trans_a, trans_b;  // A is stored as [k, m], B as [n, k]
    float alpha = 1.0f;
    int threads = 1;
  };

  // UNIMPLEMENTED without AMX, and for products too small to gain by it.
  static StatusOr<TileGemm> Make(const Sizes& sizes);

  size_t scratch_bytes() const;  // aligned to 64
  // `bias` [n], or nullptr. REQUIRES: no bias, or alpha 1.
  void Run(const float* a, const float* b, const float* bias, float* c, void* scratch) const;

 private:
  struct Operands {
    const float *a, *b, *bias;
    float* c;
  };
  // What is packed at a time: columns by all threads together, rows by the thread that uses them.
  struct Block {
    int64_t k, k_end, column, column_end;  // the columns in panels
  };

  size_t PanelBytes() const;
  void PackRows(const Operands& o, const Block& block, int64_t panel, void* to) const;
  void PackColumns(const Operands& o, const Block& block, int64_t panel, void* to) const;
  // All of the block for at most row_block_ panels of rows, [begin, end).
  void Multiply(const Operands& o, const Block& block, int64_t begin, int64_t end,
                const std::byte* columns, std::byte* rows) const;
  void MultiplyPanels(const Operands& o, const Block& block, int64_t row, int64_t column,
                      const std::byte* rows, const std::byte* columns) const;

  const TileLoops* loops_ = nullptr;
  Sizes s_{};
  int parts_ = 1;
  int64_t row_panels_ = 0, column_panels_ = 0;
  // At most so many k, panels of columns, and panels of rows by a thread are packed at a time.
  int64_t k_block_ = 0, column_block_ = 0, row_block_ = 0;
};

}  // namespace tandem
