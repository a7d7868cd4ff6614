// Computes matrix products of f32 on AMX tiles, which multiply bf16. An f32 number is a sum of
// three bf16 numbers, so a product needs six tile products (tile_loops.h).
//
// Measured on one core of Sapphire Rapids: tiles compute 2.7 TFLOP/s of bf16, or 2.1 TFLOP/s with
// operands from the L1 cache. This limits products of f32 to 380 GFLOP/s. AVX-512 reaches 110 to
// 130 GFLOP/s. The error, relative to the sum of |a b|, is 1.2e-8 rms and below 1e-7 for k up to
// 4096.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/status.h"
#include "kernels/ops/cpu/tile_loops.h"

namespace tandem::ops {

// Computes C [m, n] = alpha op(A) op(B), or op(A) op(B) + bias. Matrices are row-major and dense.
// op(A) is [m, k], op(B) is [k, n]. The order of the sums depends only on k. Therefore the bits
// depend neither on the number of threads nor on m and n. An infinity in A or B, or a number above
// 3.39e38, gives NaN. Numbers below 1e-33 lose precision. Thread-safe.
class TileGemm {
 public:
  struct Sizes {
    int64_t m, n, k;
    bool trans_a, trans_b;  // true: A is stored in transposed form as [k, m], B as [n, k]
    float alpha = 1.0f;
    int threads = 1;
  };

  // UNIMPLEMENTED: this CPU has no AMX tiles, or the product is so small that AVX-512 is faster.
  static StatusOr<TileGemm> Make(const Sizes& sizes);

  size_t scratch_bytes() const;  // bytes of scratch memory for Run, aligned to 64 bytes
  // `bias`: n elements that are added to each row of C, or nullptr. REQUIRES: `bias` is nullptr or
  // alpha is 1.
  void Run(const float* a, const float* b, const float* bias, float* c, void* scratch) const;

 private:
  struct Operands {
    const float *a, *b, *bias;
    float* c;
  };
  // The part of A and B that is packed at the same time. All threads together pack the columns of
  // B. Each thread packs the rows of A that the thread uses.
  struct Block {
    int64_t k, k_end, column, column_end;  // [k, k_end) in elements; [column, column_end) in panels
  };

  size_t PanelBytes() const;
  void PackRows(const Operands& o, const Block& block, int64_t panel, void* to) const;
  void PackColumns(const Operands& o, const Block& block, int64_t panel, void* to) const;
  // Multiplies row panels [begin, end), at most row_block_, by the packed columns of `block`.
  void Multiply(const Operands& o, const Block& block, int64_t begin, int64_t end,
                const std::byte* columns, std::byte* rows) const;
  void MultiplyPanels(const Operands& o, const Block& block, int64_t row, int64_t column,
                      const std::byte* rows, const std::byte* columns) const;

  const TileLoops* loops_ = nullptr;
  Sizes s_{};
  int parts_ = 1;
  int64_t row_panels_ = 0, column_panels_ = 0;
  // Largest parts packed at the same time: elements of k, column panels, row panels per thread.
  int64_t k_block_ = 0, column_block_ = 0, row_block_ = 0;
};

}  // namespace tandem::ops
