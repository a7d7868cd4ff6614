#include "kernels/ops/cpu/tile_gemm.h"

#include <algorithm>

#include "common/base/require.h"
#include "kernels/ops/cpu/parallel.h"

namespace tandem::ops {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Splits `n` items into nearly equal parts of at most `most` items. Returns the size of the largest
// part.
int64_t EvenPiece(int64_t n, int64_t most) {
  return CeilDiv(n, CeilDiv(n, std::max<int64_t>(most, 1)));
}

// Size of a matrix part in elements. The part consists of whole panels, except at the end of the
// matrix.
struct Area {
  int64_t rows, columns;
};

void Copy(const float* from, int64_t from_stride, float* to, int64_t to_stride, const Area& area) {
  for (int64_t r = 0; r < area.rows; ++r) {
    std::copy_n(from + r * from_stride, area.columns, to + r * to_stride);
  }
}

void Scale(float* x, int64_t stride, float by, const Area& area) {
  for (int64_t r = 0; r < area.rows; ++r, x += stride) {
    for (int64_t c = 0; c < area.columns; ++c) x[c] *= by;
  }
}

// Returns true if tiles are faster than AVX-512. Compares times in picoseconds on one core. A
// multiply-add takes 18 ps with AVX-512 and 6 ps with tiles, so tiles save 12 ps. Packing takes 350
// ps per element of A and 520 ps per element of B (measured; the constants include a reserve). The
// cost of writing a sum is estimated.
bool Gains(const TileGemm::Sizes& s) {
  constexpr double kGain = 12, kPackA = 400, kPackB = 650, kSum = 300;
  const auto m = static_cast<double>(s.m), n = static_cast<double>(s.n),
             k = static_cast<double>(s.k);
  return s.m * s.n * s.k > 0 && kPackA / n + kPackB / m + kSum / k < kGain;
}

}  // namespace

StatusOr<TileGemm> TileGemm::Make(const Sizes& s) {
  // The minimum number of multiply-adds per thread, which take about 30 microseconds.
  constexpr int64_t kProductsOfThread = 4 << 20;
  // Largest size in bytes of the packed rows and of the packed columns. The rows of a thread stay
  // in its L2 cache. Columns are read from the L2 or L3 cache.
  constexpr size_t kRowBytes = 400 << 10, kColumnBytes = 7 << 20;
  constexpr int64_t kDepth = 1024, kBlocksOfThread = 4;
  TileGemm gemm;
  TD_REQUIRE(s.threads >= 1);
  gemm.loops_ = AmxTileLoops();
  if (gemm.loops_ == nullptr) return Unimplemented("this CPU has no AMX tiles");
  if (!Gains(s))
    return Unimplemented("a product of size %d x %d x %d is too small for tiles", s.m, s.n, s.k);
  gemm.s_ = s;
  gemm.row_panels_ = CeilDiv(s.m, kTilePanel);
  gemm.column_panels_ = CeilDiv(s.n, kTilePanel);
  const int64_t worth = s.m * s.n * s.k / kProductsOfThread;
  gemm.parts_ = static_cast<int>(
      std::clamp<int64_t>(std::min<int64_t>(s.threads, worth), 1, gemm.row_panels_));
  gemm.k_block_ = kTilePanel * EvenPiece(CeilDiv(s.k, kTilePanel), kDepth / kTilePanel);
  const size_t panel = gemm.PanelBytes();
  TD_REQUIRE(gemm.parts_ >= 1 && gemm.k_block_ >= kTilePanel && panel > 0);
  gemm.column_block_ = EvenPiece(gemm.column_panels_, static_cast<int64_t>(kColumnBytes / panel));
  // Each thread gets several blocks, because some cores may have slower tiles than others.
  gemm.row_block_ =
      std::clamp<int64_t>(gemm.row_panels_ / (kBlocksOfThread * gemm.parts_), 1,
                          std::max<int64_t>(1, static_cast<int64_t>(kRowBytes / panel)));
  return gemm;
}

size_t TileGemm::PanelBytes() const {
  return static_cast<size_t>(k_block_ / kTilePanel * 2 * kTilePlanes) * kTileBytes;
}

size_t TileGemm::scratch_bytes() const {
  return static_cast<size_t>(column_block_ + parts_ * row_block_) * PanelBytes();
}

void TileGemm::PackRows(const Operands& o, const Block& block, int64_t panel, void* to) const {
  const int64_t row = panel * kTilePanel;
  const int64_t stride = s_.trans_a ? s_.m : s_.k;
  const float* from = o.a + (s_.trans_a ? block.k * stride + row : row * stride + block.k);
  loops_->pack({from, stride, s_.trans_a}, std::min(kTilePanel, s_.m - row), block.k_end - block.k,
               /*columns=*/false, to);
}

void TileGemm::PackColumns(const Operands& o, const Block& block, int64_t panel, void* to) const {
  const int64_t column = panel * kTilePanel;
  const int64_t stride = s_.trans_b ? s_.k : s_.n;
  const float* from = o.b + (s_.trans_b ? column * stride + block.k : block.k * stride + column);
  loops_->pack({from, stride, !s_.trans_b}, std::min(kTilePanel, s_.n - column),
               block.k_end - block.k, /*columns=*/true, to);
}

void TileGemm::MultiplyPanels(const Operands& o, const Block& block, int64_t row, int64_t column,
                              const std::byte* rows, const std::byte* columns) const {
  const int64_t i = row * kTilePanel, j = column * kTilePanel;
  const Area area{std::min(kTilePanel, s_.m - i), std::min(kTilePanel, s_.n - j)};
  const TileStart start = block.k > 0         ? TileStart::kSums
                          : o.bias == nullptr ? TileStart::kZero
                                              : TileStart::kBias;
  const int64_t steps = CeilDiv(block.k_end - block.k, kTilePanel);
  float* sums = o.c + i * s_.n + j;
  const float* bias = o.bias == nullptr ? nullptr : o.bias + j;
  if (area.rows == kTilePanel && area.columns == kTilePanel) {
    loops_->multiply(rows, columns, steps, start, bias, sums, s_.n);
  } else {
    alignas(64) float square[kTilePanel * kTilePanel], whole_bias[kTilePanel] = {};
    if (bias != nullptr) std::copy_n(bias, area.columns, whole_bias);
    if (start == TileStart::kSums) Copy(sums, s_.n, square, kTilePanel, area);
    loops_->multiply(rows, columns, steps, start, whole_bias, square, kTilePanel);
    Copy(square, kTilePanel, sums, s_.n, area);
  }
  if (s_.alpha != 1.0f && block.k_end == s_.k) Scale(sums, s_.n, s_.alpha, area);
}

void TileGemm::Multiply(const Operands& o, const Block& block, int64_t begin, int64_t end,
                        const std::byte* columns, std::byte* rows) const {
  const size_t panel = PanelBytes();
  loops_->begin();
  for (int64_t i = begin; i < end; ++i) {
    PackRows(o, block, i, rows + static_cast<size_t>(i - begin) * panel);
  }
  for (int64_t column = block.column; column < block.column_end; ++column) {
    for (int64_t i = begin; i < end; ++i) {
      MultiplyPanels(o, block, i, column, rows + static_cast<size_t>(i - begin) * panel,
                     columns + static_cast<size_t>(column - block.column) * panel);
    }
  }
  loops_->end();
}

void TileGemm::Run(const float* a, const float* b, const float* bias, float* c,
                   void* scratch) const {
  TD_REQUIRE(bias == nullptr || s_.alpha == 1.0f);
  const size_t panel = PanelBytes();
  auto* columns = static_cast<std::byte*>(scratch);
  std::byte* rows = columns + static_cast<size_t>(column_block_) * panel;
  const Operands o{a, b, bias, c};
  for (int64_t column = 0; column < column_panels_; column += column_block_) {
    for (int64_t k = 0; k < s_.k; k += k_block_) {
      const Block block{k, std::min(s_.k, k + k_block_), column,
                        std::min(column_panels_, column + column_block_)};
      ParallelEach(parts_, block.column_end - column, [&](int, int64_t i) {
        PackColumns(o, block, column + i, columns + static_cast<size_t>(i) * panel);
      });
      ParallelEach(parts_, CeilDiv(row_panels_, row_block_), [&](int thread, int64_t i) {
        Multiply(o, block, i * row_block_, std::min(row_panels_, (i + 1) * row_block_), columns,
                 rows + static_cast<size_t>(thread * row_block_) * panel);
      });
    }
  }
}

}  // namespace tandem::ops
