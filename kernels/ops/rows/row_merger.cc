#include "kernels/ops/rows/row_merger.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/base/require.h"
#include "kernels/ops/cpu/loops.h"
#include "kernels/ops/cpu/parallel.h"

namespace tandem::ops {
namespace {

constexpr int kDigitBits = 11;
constexpr int64_t kDigits = int64_t{1} << kDigitBits;

}  // namespace

RowMerger::RowMerger(int64_t count, int64_t height, int64_t dim, int parts)
    : count_(count), height_(height), dim_(dim), parts_(parts) {
  TD_REQUIRE(count >= 0 && count < int64_t{1} << 32);
  TD_REQUIRE(height >= 0 && height < int64_t{1} << 32);
  TD_REQUIRE(dim >= 0 && parts >= 1);
}

size_t RowMerger::scratch_bytes() const {
  return 2 * count_ * sizeof(Entry) + (count_ + 1 + kDigits) * sizeof(int64_t);
}

void RowMerger::Begin(void* scratch) {
  TD_REQUIRE(reinterpret_cast<uintptr_t>(scratch) % alignof(Entry) == 0);
  entries_ = static_cast<Entry*>(scratch);
  other_ = entries_ + count_;
  begin_ = reinterpret_cast<int64_t*>(other_ + count_);
  histogram_ = begin_ + count_ + 1;
  added_ = 0;
}

void RowMerger::Add(int64_t row, const float* values) {
  TD_REQUIRE(row >= 0 && row < height_ && added_ < count_);
  entries_[added_++] = {row, values};
}

// Sorts the entries by row with a radix sort, lowest digit first. The sort is stable: entries of
// equal rows keep their order.
void RowMerger::Sort() {
  const int bits = std::bit_width(static_cast<uint64_t>(height_ - 1));
  for (int shift = 0; shift < bits; shift += kDigitBits) {
    const auto digit = [shift](const Entry& e) { return (e.row >> shift) & (kDigits - 1); };
    std::fill_n(histogram_, kDigits, 0);
    for (int64_t i = 0; i < added_; ++i) ++histogram_[digit(entries_[i])];
    int64_t total = 0;
    for (int64_t d = 0; d < kDigits; ++d) total += std::exchange(histogram_[d], total);
    for (int64_t i = 0; i < added_; ++i) other_[histogram_[digit(entries_[i])]++] = entries_[i];
    std::swap(entries_, other_);
  }
}

void RowMerger::Finish(int64_t* rows, float* values, int64_t n) {
  Sort();
  int64_t unique = 0;
  for (int64_t i = 0; i < added_; ++i) {
    if (i > 0 && entries_[i].row == entries_[i - 1].row) continue;
    begin_[unique] = i;
    rows[unique++] = entries_[i].row;
  }
  TD_REQUIRE(unique <= n);
  begin_[unique] = added_;
  std::fill(rows + unique, rows + n, -1);
  const Loops& loops = BestLoops();
  ParallelFor(parts_, n, [&](int, int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* out = values + r * dim_;
      std::fill_n(out, dim_, 0.0f);
      if (r >= unique) continue;
      for (int64_t i = begin_[r]; i < begin_[r + 1]; ++i) {
        loops.add(out, entries_[i].values, out, dim_);
      }
    }
  });
}

}  // namespace tandem::ops
