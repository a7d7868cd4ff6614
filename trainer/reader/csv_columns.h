// Internal to the csv reader: what the values of a column are while a file is read, and the ids
// that they become when it is known as a whole.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trainer/reader/csv.h"

namespace tandem {

// A text of up to 15 bytes as two numbers: faster to hash and to compare than the bytes.
struct ShortText {
  static constexpr size_t kBytesMax = 15;
  uint64_t low, high;  // the last byte is the length

  // REQUIRES: at most kBytesMax bytes; kTextSlack bytes can be read behind them.
  explicit ShortText(std::string_view text) {
    const auto load = [&text](size_t from) {
      uint64_t word;
      std::memcpy(&word, text.data() + from, sizeof(word));
      const size_t bytes = text.size() - std::min(text.size(), from);
      return bytes >= 8 ? word : word & ((uint64_t{1} << 8 * bytes) - 1);
    };
    low = load(0);
    high = load(8) | uint64_t{text.size()} << 56;
  }
  bool operator==(const ShortText&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const ShortText& text) {
    return H::combine(std::move(h), text.low, text.high);
  }
};

// Texts numbered from 1 in the order of their first appearance, and how often each appeared.
class TextCodes {
 public:
  TextCodes() = default;
  TextCodes(TextCodes&&) = default;  // texts stay where they are
  TextCodes(const TextCodes&) = delete;
  TextCodes& operator=(const TextCodes&) = delete;

  // Counts the text. REQUIRES: kTextSlack bytes can be read behind it.
  uint32_t Code(std::string_view text) {
    const uint32_t code =
        text.size() <= ShortText::kBytesMax ? CodeOfShort(text) : CodeOfLong(text);
    ++counts_[code - 1];
    return code;
  }

  const std::deque<std::string>& texts() const { return texts_; }
  const std::vector<int64_t>& counts() const { return counts_; }

 private:
  uint32_t CodeOfShort(std::string_view text) {
    uint32_t& code = short_[ShortText(text)];
    if (code == 0) code = Append(text);
    return code;
  }
  uint32_t CodeOfLong(std::string_view text);
  uint32_t Append(std::string_view text);

  absl::flat_hash_map<ShortText, uint32_t> short_;
  absl::flat_hash_map<std::string_view, uint32_t> long_;  // of texts_
  std::deque<std::string> texts_;                         // which do not move
  std::vector<int64_t> counts_;
};

// The records of a piece of a file. Values are what their column's kind makes of them: kVocabulary
// a code of `texts`, 0 when missing; kNumeric the bits of a float, NaN when missing; kHash the id.
struct CsvPiece {
  std::vector<uint32_t> values;  // [records, columns]
  std::vector<uint8_t> labels;
  std::vector<TextCodes> texts;  // [columns]
};

// A number's value in a CsvPiece, and back.
uint32_t NumberBits(float number);
float NumberOf(uint32_t bits);

// The ids of a column, learned from training data. Constant.
class ColumnIds {
 public:
  ColumnIds(const CsvColumn& column, size_t index, std::span<const CsvPiece> pieces);

  // Turns the values of the column in `piece` into ids of [0, column.ids).
  void Encode(CsvPiece& piece) const;

 private:
  void LearnTexts(std::span<const CsvPiece> pieces);
  void LearnNumbers(std::span<const CsvPiece> pieces, size_t columns);
  uint32_t BucketOf(uint32_t bits) const;

  const CsvColumn column_;
  const size_t index_;
  absl::flat_hash_map<std::string, uint32_t> ids_;  // kVocabulary
  std::vector<float> bounds_;                       // kNumeric, ascending
};

}  // namespace tandem
