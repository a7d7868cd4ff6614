#include "trainer/reader/csv_columns.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace tandem {
namespace {

// Unsigned numbers in the order of the floats whose bits they are made of, and back.
uint32_t Ordered(uint32_t bits) { return bits ^ ((bits >> 31) != 0 ? ~uint32_t{0} : 1u << 31); }
uint32_t FromOrdered(uint32_t key) { return key ^ ((key >> 31) != 0 ? 1u << 31 : ~uint32_t{0}); }

// Ascending, by radix: columns are long, and comparing takes longer than reading them.
void RadixSort(std::vector<uint32_t>& keys) {
  constexpr int kBits = 11;
  constexpr uint32_t kMask = (1u << kBits) - 1;
  std::vector<uint32_t> other(keys.size());
  for (int shift = 0; shift < 32; shift += kBits) {
    std::array<size_t, kMask + 2> at{};
    for (const uint32_t key : keys) ++at[((key >> shift) & kMask) + 1];
    for (size_t i = 1; i < at.size(); ++i) at[i] += at[i - 1];
    for (const uint32_t key : keys) other[at[(key >> shift) & kMask]++] = key;
    keys.swap(other);
  }
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

uint32_t NumberBits(float number) { return std::bit_cast<uint32_t>(number == 0 ? 0.0f : number); }
float NumberOf(uint32_t bits) { return std::bit_cast<float>(bits); }

ColumnIds::ColumnIds(const CsvColumn& column, size_t index, std::span<const CsvPiece> pieces)
    : column_(column), index_(index) {
  if (column.kind == CsvColumn::kVocabulary) LearnTexts(pieces);
  if (column.kind == CsvColumn::kNumeric && !pieces.empty()) {
    LearnNumbers(pieces, pieces[0].texts.size());
  }
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

void ColumnIds::LearnNumbers(std::span<const CsvPiece> pieces, size_t columns) {
  std::vector<uint32_t> numbers;
  for (const CsvPiece& piece : pieces) {
    for (size_t i = index_; i < piece.values.size(); i += columns) {
      if (!std::isnan(NumberOf(piece.values[i]))) numbers.push_back(Ordered(piece.values[i]));
    }
  }
  RadixSort(numbers);
  // A bucket takes its share of what is left and all that equals its last number, so that a number
  // that most records have takes one bucket and leaves the others to the rest.
  const size_t n = numbers.size();
  for (size_t at = 0, left = static_cast<size_t>(column_.ids - 1); left > 1 && at < n; --left) {
    at += std::max<size_t>((n - at) / left, 1);
    while (at < n && numbers[at] == numbers[at - 1]) ++at;
    if (at < n) bounds_.push_back(NumberOf(FromOrdered(numbers[at])));
  }
}

uint32_t ColumnIds::BucketOf(uint32_t bits) const {
  const float number = NumberOf(bits);
  if (std::isnan(number)) return 0;
  // How many bounds are not above it, by halves and without branches, which nobody could predict.
  size_t below = 0;
  for (size_t left = bounds_.size(); left > 0;) {
    const size_t half = (left + 1) / 2;
    below += bounds_[below + half - 1] <= number ? half : 0;
    left -= half;
  }
  return static_cast<uint32_t>(below) + 1;
}

void ColumnIds::Encode(CsvPiece& piece) const {
  const size_t columns = piece.texts.size();
  if (column_.kind == CsvColumn::kNumeric) {
    for (size_t i = index_; i < piece.values.size(); i += columns) {
      piece.values[i] = BucketOf(piece.values[i]);
    }
  } else if (column_.kind == CsvColumn::kVocabulary) {
    std::vector<uint32_t> id_of = {0};  // by code
    for (const std::string& text : piece.texts[index_].texts()) {
      const auto found = ids_.find(text);
      id_of.push_back(found == ids_.end() ? 0 : found->second);
    }
    for (size_t i = index_; i < piece.values.size(); i += columns) {
      piece.values[i] = id_of[piece.values[i]];
    }
  }
}

}  // namespace tandem
