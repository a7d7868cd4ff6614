#include "trainer/reader/csv_columns.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace tandem::reader {
namespace {

// Ordered converts the bits of a float to an unsigned number with the same order. FromOrdered
// converts the number back to the bits.
uint32_t Ordered(uint32_t bits) { return bits ^ ((bits >> 31) != 0 ? ~uint32_t{0} : 1u << 31); }
uint32_t FromOrdered(uint32_t key) { return key ^ ((key >> 31) != 0 ? 1u << 31 : ~uint32_t{0}); }

// Sorts `keys` ascending by radix, because a column is long, and comparisons would take longer than
// the accesses to memory.
void RadixSort(std::vector<uint32_t>& keys) {
  constexpr int kBits = 11, kDigits = 3;
  constexpr uint32_t kMask = (1u << kBits) - 1;
  std::array<std::array<size_t, kMask + 1>, kDigits> counts{};
  for (const uint32_t key : keys) {
    for (int d = 0; d < kDigits; ++d) ++counts[d][(key >> d * kBits) & kMask];
  }
  std::vector<uint32_t> other(keys.size());
  for (int d = 0; d < kDigits && !keys.empty(); ++d) {
    const int shift = d * kBits;
    auto& at = counts[d];
    if (at[(keys[0] >> shift) & kMask] == keys.size()) continue;  // all keys have the same digit
    std::exclusive_scan(at.begin(), at.end(), at.begin(), size_t{0});
    for (const uint32_t key : keys) other[at[(key >> shift) & kMask]++] = key;
    keys.swap(other);
  }
}

// Returns the numbers of each kNumeric column in all pieces, as Ordered() keys. Reads the records
// once for all columns, because the values of a record are adjacent.
std::vector<std::vector<uint32_t>> NumbersOf(std::span<const CsvColumn> columns,
                                             std::span<const CsvPiece> pieces) {
  size_t records = 0;
  for (const CsvPiece& piece : pieces) records += piece.labels.size();
  std::vector<size_t> numeric;
  std::vector<std::vector<uint32_t>> numbers(columns.size());
  for (size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].kind != CsvColumn::kNumeric) continue;
    numeric.push_back(c);
    numbers[c].reserve(records);
  }
  for (const CsvPiece& piece : pieces) {
    for (size_t at = 0; at < piece.values.size(); at += columns.size()) {
      for (const size_t c : numeric) {
        const uint32_t bits = piece.values[at + c];
        if (!std::isnan(NumberOf(bits))) numbers[c].push_back(Ordered(bits));
      }
    }
  }
  return numbers;
}

}  // namespace

uint32_t TextCodes::Append(std::string_view text) {
  texts_.emplace_back(text);
  counts_.push_back(0);
  return static_cast<uint32_t>(texts_.size());
}

uint32_t TextCodes::CodeOfLong(std::string_view text) {
  if (const auto found = long_.find(text); found != long_.end()) return found->second;
  const uint32_t code = Append(text);
  long_.emplace(texts_.back(), code);
  return code;
}

std::vector<ColumnIds> ColumnIds::Learn(std::span<const CsvColumn> columns,
                                        std::span<const CsvPiece> pieces) {
  std::vector<std::vector<uint32_t>> numbers = NumbersOf(columns, pieces);
  std::vector<ColumnIds> all;
  for (size_t c = 0; c < columns.size(); ++c) {
    ColumnIds& ids = all.emplace_back(ColumnIds(columns[c], c));
    if (columns[c].kind == CsvColumn::kVocabulary) ids.LearnTexts(pieces);
    if (columns[c].kind == CsvColumn::kNumeric) ids.LearnNumbers(std::move(numbers[c]));
  }
  return all;
}

void ColumnIds::LearnTexts(std::span<const CsvPiece> pieces) {
  absl::flat_hash_map<std::string_view, int64_t> counts;
  for (const CsvPiece& piece : pieces) {
    const TextCodes& texts = piece.texts[index_];
    for (size_t i = 0; i < texts.texts().size(); ++i) counts[texts.texts()[i]] += texts.counts()[i];
  }
  std::vector<std::pair<int64_t, std::string_view>> order;
  for (const auto& [text, count] : counts) order.emplace_back(-count, text);
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size() && std::cmp_less(i, column_.ids - 1); ++i) {
    ids_.emplace(order[i].second, static_cast<uint32_t>(i + 1));
  }
}

void ColumnIds::LearnNumbers(std::vector<uint32_t> numbers) {
  RadixSort(numbers);
  // A bucket gets its share of the remaining numbers, and also all further numbers that equal its
  // last number. Thus a very frequent number fills one bucket, and the other buckets share the
  // other numbers.
  const size_t n = numbers.size();
  for (size_t at = 0, left = static_cast<size_t>(column_.ids - 1); left > 1 && at < n; --left) {
    at += std::max<size_t>((n - at) / left, 1);
    while (at < n && numbers[at] == numbers[at - 1]) ++at;
    if (at < n) bounds_.push_back(NumberOf(FromOrdered(numbers[at])));
  }
  for (size_t i = 0; i < kSmall; ++i) small_.push_back(Search(static_cast<float>(i)));
}

uint32_t ColumnIds::Search(float number) const {
  // Counts the bounds that are not above the number, by a binary search without branches, because
  // the processor could not predict these branches.
  size_t below = 0;
  for (size_t left = bounds_.size(); left > 0;) {
    const size_t half = (left + 1) / 2;
    below += bounds_[below + half - 1] <= number ? half : 0;
    left -= half;
  }
  return static_cast<uint32_t>(below) + 1;
}

uint32_t ColumnIds::BucketOf(uint32_t bits) const {
  const float number = NumberOf(bits);
  if (number >= 0 && number < static_cast<float>(kSmall)) {
    const auto whole = static_cast<size_t>(number);
    if (static_cast<float>(whole) == number) return small_[whole];
  }
  return std::isnan(number) ? 0 : Search(number);
}

void ColumnIds::Encode(CsvPiece& piece) const {
  const size_t columns = piece.texts.size();
  if (column_.kind == CsvColumn::kNumeric) {
    for (size_t i = index_; i < piece.values.size(); i += columns) {
      piece.values[i] = BucketOf(piece.values[i]);
    }
  } else if (column_.kind == CsvColumn::kVocabulary) {
    std::vector<uint32_t> id_of = {0};  // the id of each text number
    for (const std::string& text : piece.texts[index_].texts()) {
      const auto found = ids_.find(text);
      id_of.push_back(found == ids_.end() ? 0 : found->second);
    }
    for (size_t i = index_; i < piece.values.size(); i += columns) {
      piece.values[i] = id_of[piece.values[i]];
    }
  }
}

}  // namespace tandem::reader
