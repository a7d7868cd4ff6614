// Internal to the csv reader: what the values of a column are while a file is read, and the ids
// that they become when it is known as a whole.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trainer/reader/csv.h"

namespace tandem {

// Texts numbered from 1 in the order of their first appearance, and how often each appeared.
class TextCodes {
 public:
  TextCodes() = default;
  TextCodes(TextCodes&&) = default;  // texts stay where they are
  TextCodes(const TextCodes&) = delete;
  TextCodes& operator=(const TextCodes&) = delete;

  // Counts the text.
  uint32_t Code(std::string_view text) {
    const auto found = codes_.find(text);
    if (found == codes_.end()) return Insert(text);
    ++counts_[found->second - 1];
    return found->second;
  }

  const std::deque<std::string>& texts() const { return texts_; }
  const std::vector<int64_t>& counts() const { return counts_; }

 private:
  uint32_t Insert(std::string_view text);

  absl::flat_hash_map<std::string_view, uint32_t> codes_;  // of texts_
  std::deque<std::string> texts_;                          // which do not move
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
