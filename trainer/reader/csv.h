// Text tables with one record per line and column names in the first line. Each chosen column
// becomes one id: categories by a vocabulary or a hash, numbers by buckets. The id ranges of
// columns do not overlap, so that one embedding table serves all columns.
//
// The vocabulary and the buckets are made from the training file only and do not depend on the
// order of its records. The vocabulary has the most frequent values; equally frequent values are in
// byte order. The limits of the buckets are quantiles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/reader/input/record_files.h"

namespace tandem::reader {

struct CsvColumn {
  enum Kind : uint8_t { kVocabulary, kHash, kNumeric };
  std::string name;
  Kind kind = kVocabulary;
  // Number of ids of this column, at least 2. The first id is for missing values and for values
  // outside the vocabulary. Each other id is for one value, one hash or one bucket. The buckets
  // have about equal numbers of training records.
  int64_t ids = 0;
};

struct CsvOptions {
  std::string train_path, test_path;  // paths; test_path empty: there is only training data
  char separator = ',';               // separates fields; blanks around a field are ignored
  std::string missing = "?";  // text of a missing value; an empty field is a missing value too
  std::string label_column;
  // Texts of the label column that mean label 1, and texts that mean label 0.
  std::vector<std::string> positive_labels, negative_labels;
  std::vector<CsvColumn> columns;
  uint32_t samples_max = 0;  // number of training records to use, from the first on; 0: all
  LineReading reading;       // how lines are read; names_columns and records_max are unused
};

// Opens csv files. The fields of both datasets are "ids" i64 [columns] and "label" i64 [1]. Empty
// lines are ignored. A record is bad for each of these reasons:
// - The number of its fields is not that of the first line.
// - Its quotes are malformed (SplitQuotedLine).
// - Its label is neither positive nor negative.
// - A number is malformed.
//
// INVALID_ARGUMENT: options contradict each other, or a column is not among the names in the first
// line; the message has the nearest name. Errors of the files are those of ReadLines().
StatusOr<TrainAndTest> OpenCsv(const CsvOptions& options);

}  // namespace tandem::reader
