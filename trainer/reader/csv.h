// Text tables with one record per line, separated columns, and column names in the first line. Each
// chosen column becomes one id: categories by vocabulary or hash, numbers by bucket. The id ranges
// of columns do not overlap, so one embedding table serves all columns.
//
// Vocabulary and buckets are made from the training file only and do not depend on the order of its
// records. The vocabulary has the most frequent values (ties in byte order); the buckets use
// quantiles.
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
  // Ids of this column, at least 2. The first is for missing values and values outside the
  // vocabulary. The others are for values, or for buckets with about equally many training records
  // each.
  int64_t ids = 0;
};

struct CsvOptions {
  std::string train_path, test_path;  // test_path empty: training data only
  char separator = ',';               // blanks around a field are ignored
  std::string missing = "?";          // this text and an empty field mean: no value
  std::string label_column;
  std::vector<std::string> positive_labels, negative_labels;  // label 1 and label 0
  std::vector<CsvColumn> columns;
  uint32_t samples_max = 0;  // uses only the first samples_max training records; 0: all
  LineReading reading;       // names_columns and records_max are unused
};

// Fields of both datasets: "ids" i64 [columns] and "label" i64 [1]. Empty lines are ignored. A
// record is bad in these cases:
//
// - its number of fields differs from the first line's;
// - its quotes are malformed (SplitQuotedLine);
// - its label is neither positive nor negative;
// - a number is malformed.
//
// INVALID_ARGUMENT: options contradict each other or the first line; the message has the nearest
// name. Errors of the files: as ReadLines().
StatusOr<TrainAndTest> OpenCsv(const CsvOptions& options);

}  // namespace tandem::reader
