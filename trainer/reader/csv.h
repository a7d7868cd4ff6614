// Tables in text form with one record a line, columns between separators, names in the first line.
// Each chosen column becomes one id: categories by vocabulary or hash, numbers by bucket. Ids of
// different columns do not meet, so that one embedding table serves all.
//
// Vocabulary and buckets are made from the training file alone, by its records in any order: the
// most frequent values (of equally frequent ones the first in byte order), and quantiles.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/reader/record_files.h"

namespace tandem {

struct CsvColumn {
  enum Kind : uint8_t { kVocabulary, kHash, kNumeric };
  std::string name;
  Kind kind = kVocabulary;
  // Ids of this column, at least 2: the first for what is missing or not in the vocabulary, the
  // others for values, or for buckets with about equally many training records each.
  int64_t ids = 0;
};

struct CsvOptions {
  std::string train_path, test_path;  // test_path empty: training data alone
  char separator = ',';               // blanks around a field do not count
  std::string missing = "?";          // this and nothing at all mean: no value
  std::string label_column;
  std::vector<std::string> positive_labels, negative_labels;  // label 1 and label 0
  std::vector<CsvColumn> columns;
  uint32_t samples_max = 0;  // the first so many training records; 0: all
  LineReading reading;       // names_columns and records_max are not used
};

// Fields of both datasets: "ids" i64 [columns] and "label" i64 [1]. A bad record has another number
// of fields than the first line, quotes that do not fit (SplitQuotedLine), a label that is neither
// positive nor negative, or a number that is none; empty lines are no records.
// INVALID_ARGUMENT for options that contradict each other or the first line (with the nearest
// name); for the files as ReadLines().
StatusOr<TrainAndTest> OpenCsv(const CsvOptions& options);

}  // namespace tandem
