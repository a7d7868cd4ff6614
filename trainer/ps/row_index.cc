#include "trainer/ps/row_index.h"

#include <array>

#include "common/base/check.h"
#include "common/base/require.h"

namespace tandem::trainer {
namespace {

// Number of bits of a digit. The counters of all 2048 values of a digit fit in the L1 cache.
constexpr int kDigitBits = 11;
constexpr uint64_t kDigits = uint64_t{1} << kDigitBits;

}  // namespace

void RowIndex::Sort(uint64_t bits_used) {
  scratch_.resize(entries_.size());
  for (int shift = 0; shift < 64 && (bits_used >> shift) != 0; shift += kDigitBits) {
    std::array<uint32_t, kDigits> begin = {};
    for (const Entry& e : entries_) ++begin[(e.id >> shift) % kDigits];
    uint32_t sum = 0;
    for (uint32_t& count : begin) {
      const uint32_t here = count;
      count = sum;
      sum += here;
    }
    for (const Entry& e : entries_) scratch_[begin[(e.id >> shift) % kDigits]++] = e;
    entries_.swap(scratch_);
  }
}

void RowIndex::Set(std::span<const std::span<const int64_t>> ids, int64_t padding) {
  entries_.clear();
  places_.clear();
  rows_.clear();
  uint64_t bits_used = 0;
  for (const auto piece : ids) {
    for (const int64_t id : piece) {
      TD_REQUIRE(id >= 0 || id == padding);
      const auto at = static_cast<uint32_t>(places_.size());
      places_.push_back(-1);
      if (id == padding) continue;
      bits_used |= static_cast<uint64_t>(id);
      entries_.push_back({static_cast<uint64_t>(id), at});
    }
  }
  CHECK_LT(places_.size(), size_t{1} << 31);
  Sort(bits_used);
  for (const Entry& e : entries_) {
    const auto id = static_cast<int64_t>(e.id);
    if (rows_.empty() || rows_.back() != id) rows_.push_back(id);
    places_[e.at] = static_cast<int32_t>(rows_.size()) - 1;
  }
  DCHECK_LE(rows_.size(), entries_.size());
}

}  // namespace tandem::trainer
