// The values of one column of a table. The table reader collects the values while it reads the
// files. When the training rows are known, it converts the values to numbers or ids. Internal to
// the table reader.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trainer/reader/input/row_split.h"
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
// Returns the name of the kind in proto/job.proto, for example "FLOAT".
const char* Name(ColumnKind kind);

// Returns whether the cell has no value: it is an empty text, one of the texts `missing`, or the
// number NaN.
bool IsMissing(const TableCell& cell, std::span<const std::string> missing);

// Parses a finite decimal number. nullopt: `text` is another text.
std::optional<double> ParseFinite(std::string_view text);

// Returns the seconds since 1970-01-01 UTC. `text` is this number itself, a date (2026-01-31), or a
// date and time (2026-01-31T12:00:59.5+01:00; a blank may replace the T). nullopt: `text` is
// another text.
std::optional<double> ParseTime(std::string_view text);

// Infers the kind of a column from its values. The kind is kFloat if at least 90 % of the values
// are numbers, kTime if at least 90 % are times, and kCategory otherwise.
class KindGuess {
 public:
  // Adds a value. REQUIRES: the value is not missing.
  void Add(const TableCell& cell);
  // Returns the inferred kind; kIgnore: no value was added.
  ColumnKind Result() const;

 private:
  int64_t values_ = 0, numbers_ = 0, times_ = 0;
};

// The values of one column. The caller calls Convert() and Keep() for each row of the training
// files, then Learn(), then Convert() and Keep() for each row of the test files. Not thread-safe
// until all rows are kept.
class ColumnValues {
 public:
  // `classes`: the classes of a kLabel column, in order; empty: all values of the column. REQUIRES:
  // `kind` is not kInfer and not kIgnore.
  ColumnValues(std::string name, ColumnKind kind, std::vector<std::string> classes);

  const std::string& name() const { return name_; }
  ColumnKind kind() const { return kind_; }

  // Converts the value of a row, but does not store it. `missing`: result of IsMissing(cell).
  // DATA_LOSS: the value does not suit the kind, or a label, target or weight is missing.
  Status Convert(const TableCell& cell, bool missing);
  // Stores the value of the last Convert() as the value of the next row.
  void Keep();

  // Learns mean and deviation, or the vocabulary, from the kept training rows. Learns classes from
  // all kept rows. parts[r]: part of row r. `standardise`: scales kFloat and kTime to mean 0 and
  // deviation 1. INVALID_ARGUMENT: there are more than kClassesMax classes.
  Status Learn(std::span<const RowPart> parts, bool standardise);

  // The following functions are valid after Learn().
  bool has_missing() const {
    return has_missing_;
  }  // whether a training row lacks a value; always
     // false for kLabel
  // kCategory: number of ids, including id 0. kOneHot: number of elements of "x" in one row.
  // kLabel: number of classes.
  int64_t ids() const { return ids_; }
  // kFloat, kTime, kTarget, kWeight: returns the scaled value of a row. A missing value is replaced
  // by the mean before scaling.
  float NumberOf(size_t row) const;
  bool MissingAt(size_t row) const;
  // kCategory, kOneHot: returns the id of the value; 0: the value is missing, or no training row
  // has this value. kLabel: returns the number of the class.
  uint32_t IdOf(size_t row) const;
  // Returns a text such as "mean 3, deviation 2, 4 missing" or "3 classes: a, b, c".
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

  double number_ = 0;            // result of the last Convert(), for number kinds
  std::string text_;             // result of the last Convert(), for text kinds; "": missing
  std::vector<double> numbers_;  // number of each kept row; NaN: missing
  std::vector<uint32_t> codes_;  // index in texts_ of each kept row; 0: missing
  std::vector<std::string> texts_ = {""};  // different texts of the column
  absl::flat_hash_map<std::string, uint32_t> codes_of_texts_;

  bool learned_ = false, has_missing_ = false;
  double mean_ = 0, scale_ = 1;  // NumberOf() returns (number - shift_) * scale_
  double shift_ = 0, deviation_ = 0;
  int64_t missing_ = 0;  // number of training rows without a value
  int64_t ids_ = 0;
  std::vector<uint32_t> id_of_code_;
  std::vector<std::string> names_;  // the first classes or values, for Describe()
};

}  // namespace tandem::reader
