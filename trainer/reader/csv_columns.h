// Internal to the csv reader: the values of a column while a file is read, and the ids to which the
// reader converts the values after it has read the whole column.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/require.h"
#include "trainer/reader/csv.h"

namespace tandem::reader {

// A text of up to 15 bytes as two numbers, which are faster to hash and compare than the bytes.
struct ShortText {
  static constexpr size_t kBytesMax = 15;
  uint64_t low, high;  // 16 bytes: the text, zeros, and in the last byte the length of the text

  // REQUIRES: the text has at most kBytesMax bytes, and kTextSlack bytes after the text are
  // readable.
  explicit ShortText(std::string_view text) {
    TD_REQUIRE(text.size() <= kBytesMax);
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
  // The hash is the xor of the two 64-bit halves of one 128-bit product (the "mum" of wyhash).
  struct Hash {
    size_t operator()(const ShortText& text) const {
      const auto product = static_cast<unsigned __int128>(text.low ^ 0xa0761d6478bd642f) *
                           (text.high ^ 0xe7037ed1a0b428db);
      return static_cast<size_t>(product) ^ static_cast<size_t>(product >> 64);
    }
  };
};

// Gives each different text a number, from 1 in the order of first appearance, and counts the
// texts.
class TextCodes {
 public:
  TextCodes() = default;
  // A move keeps the texts at their addresses, to which the keys of long_ point.
  TextCodes(TextCodes&&) = default;
  TextCodes(const TextCodes&) = delete;
  TextCodes& operator=(const TextCodes&) = delete;

  // Returns the number of the text, and counts the text. REQUIRES: kTextSlack bytes after the text
  // are readable.
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

  absl::flat_hash_map<ShortText, uint32_t, ShortText::Hash> short_;
  // Numbers of long texts; the keys point into texts_.
  absl::flat_hash_map<std::string_view, uint32_t> long_;
  std::deque<std::string> texts_;  // all texts; the elements of a deque do not move
  std::vector<int64_t> counts_;
};

// The records of a piece of a file. The kind of a column determines its values. kVocabulary: the
// number of the text in `texts`; 0: the value is missing. kNumeric: the bits of a float; NaN: the
// value is missing. kHash: the id.
struct CsvPiece {
  std::pmr::vector<uint32_t> values;  // the values of the records, [records, columns]
  std::vector<uint8_t> labels;
  std::vector<TextCodes> texts;  // the different texts of each column
};

// NumberBits converts a number to its value in a CsvPiece. NumberOf converts this value back.
inline uint32_t NumberBits(float number) {
  return std::bit_cast<uint32_t>(number == 0 ? 0.0f : number);
}
inline float NumberOf(uint32_t bits) { return std::bit_cast<float>(bits); }

// The ids of a column, learned from the training data. Immutable.
class ColumnIds {
 public:
  // Learns the ids of all columns from the pieces. The result does not refer to the pieces.
  static std::vector<ColumnIds> Learn(std::span<const CsvColumn> columns,
                                      std::span<const CsvPiece> pieces);

  // Replaces the values of this column in `piece` by ids in [0, column.ids).
  void Encode(CsvPiece& piece) const;

 private:
  ColumnIds(const CsvColumn& column, size_t index) : column_(column), index_(index) {}
  void LearnTexts(std::span<const CsvPiece> pieces);
  // `numbers`: sort keys of the numbers of the column.
  void LearnNumbers(std::vector<uint32_t> numbers);
  uint32_t Search(float number) const;
  uint32_t BucketOf(uint32_t bits) const;

  CsvColumn column_;
  size_t index_;
  absl::flat_hash_map<std::string, uint32_t> ids_;  // kVocabulary: the id of each text
  std::vector<float> bounds_;  // kNumeric: lower bounds of the buckets, ascending
  static constexpr size_t kSmall = 4096;
  // kNumeric: the ids of the whole numbers below kSmall, which are the most frequent numbers.
  std::vector<uint32_t> small_;
};

}  // namespace tandem::reader
