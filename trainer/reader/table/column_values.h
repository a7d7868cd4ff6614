// The values of a column of a table while its files are read, and what they become once the
// training rows are known. Internal to the table reader.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trainer/reader/table/table_source.h"

namespace tandem::reader {

enum class ColumnKind : uint8_t {
  kInfer,
  kFloat,
  kCategory,
  kOneHot,
  kLabel,
  kTarget,
  kWeight,
  kTime,
  kIgnore,
};
// As in proto/job.proto: "FLOAT".
const char* Name(ColumnKind kind);

enum class RowPart : uint8_t { kTrain, kValidation, kTest, kUnused };

// Whether the cell has no value: an empty text, one of `missing`, or not a number.
bool IsMissing(const TableCell& cell, std::span<const std::string> missing);

// A finite decimal number; nullopt: another text.
std::optional<double> ParseFinite(std::string_view text);

// Seconds since 1970 of a number, a date (2026-01-31) or a time (2026-01-31T12:00:59.5+01:00, also
// with a blank instead of T); nullopt: another text.
std::optional<double> ParseTime(std::string_view text);

// Chooses a kind for a column from its values.
class KindGuess {
 public:
  // A value that is not missing.
  void Add(const TableCell& cell);
  // kIgnore: there was no value.
  ColumnKind Result() const;

 private:
  int64_t values_ = 0, numbers_ = 0, times_ = 0;
};

// Use: Convert() and Keep() for each row of the files with training rows, then Learn(), then
// Convert() and Keep() for other rows. Not thread-safe until all rows are kept.
class ColumnValues {
 public:
  // `classes`: of kLabel; empty: all values. REQUIRES: `kind` is not kInfer and not kIgnore.
  ColumnValues(std::string name, ColumnKind kind, std::vector<std::string> classes);

  const std::string& name() const { return name_; }
  ColumnKind kind() const { return kind_; }

  // Converts the value of a row; `missing`: IsMissing(cell). DATA_LOSS: it does not have the kind.
  Status Convert(const TableCell& cell, bool missing);
  // Keeps the value that Convert() has made as that of the next row.
  void Keep();

  // Makes mean, deviation, vocabulary and classes. parts[r]: part of row r. INVALID_ARGUMENT: more
  // than kClassesMax classes.
  Status Learn(std::span<const RowPart> parts, bool standardise);

  // After Learn():
  bool has_missing() const { return has_missing_; }  // in the training rows
  // Number of ids (kCategory, with id 0), elements of one row (kOneHot) or classes (kLabel).
  int64_t ids() const { return ids_; }
  // kFloat, kTime, kTarget, kWeight: the value of a row, scaled. A missing value is the mean.
  float NumberOf(size_t row) const;
  bool MissingAt(size_t row) const;
  // kCategory, kOneHot: 0: missing, or not in the training rows. kLabel: the class.
  uint32_t IdOf(size_t row) const;
  // "mean 3, deviation 2, 4 missing", "3 classes: a, b, c"
  std::string Describe() const;

  static constexpr size_t kClassesMax = 65536;

 private:
  bool IsText() const;
  Status ConvertLabel(const TableCell& cell);
  void LearnNumbers(std::span<const RowPart> parts, bool standardise);
  void LearnVocabulary(std::span<const RowPart> parts);
  Status LearnClasses();

  const std::string name_;
  const ColumnKind kind_;
  const std::vector<std::string> given_classes_;

  double number_ = 0;                      // made by Convert()
  std::string text_;                       // made by Convert(); "": missing
  std::vector<double> numbers_;            // by row; not a number: missing
  std::vector<uint32_t> codes_;            // by row; 0: missing
  std::vector<std::string> texts_ = {""};  // by code
  absl::flat_hash_map<std::string, uint32_t> codes_of_texts_;

  bool learned_ = false, has_missing_ = false;
  double mean_ = 0, scale_ = 1;  // NumberOf() is (number - shift_) * scale_
  double shift_ = 0, deviation_ = 0;
  int64_t missing_ = 0;  // training rows without a value
  int64_t ids_ = 0;
  std::vector<uint32_t> id_of_code_;
  std::vector<std::string> names_;  // the first classes or values
};

}  // namespace tandem::reader
