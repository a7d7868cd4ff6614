// Tables whose columns are numbers, texts, classes, targets, weights or times. The files are text
// (RFC 4180) or arrays of numpy, and stay in memory as fields.
//
// Each row belongs to one part by its number in the files and a seed, so every layout of ranks sees
// the same training, validation and test rows. A damaged row keeps its number. Means, deviations
// and vocabularies come from the training rows only.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/reader/input/dataset.h"
#include "trainer/reader/table/column_values.h"

namespace tandem::reader {

struct TableColumn {
  std::string name;  // "*" at its end stands for any text; an array has the name of its columns
  ColumnKind kind = ColumnKind::kInfer;
  std::vector<std::string> classes;  // kLabel: in order; empty: all values, sorted
};

struct TableOptions {
  std::vector<std::string> files, test_files;  // paths
  char separator = ',';
  std::vector<std::string> missing = {"NA", "N/A", "NaN", "nan", "null", "None", "?"};
  std::vector<TableColumn> columns;
  ColumnKind others = ColumnKind::kInfer;  // kind of columns that `columns` does not name
  bool standardise = false;                // kFloat and kTime columns
  bool missing_indicator = false;
  std::array<double, 3> split = {1, 0, 0};  // shares for training, validation and test
  uint64_t split_seed = 1;
  bool evaluate_validation = false;  // the test data are the validation rows
  uint32_t samples_max = 0;          // uses only the first samples_max training rows; 0: all
  int64_t bad_rows_max = 0;          // in all files
};

// Fields of both datasets, where the table has such columns:
//
// - "x" f32 [features]: kFloat, kTime and kOneHot columns in their order, then the indicators;
// - "ids" i64 [categories]: ids of the columns are consecutive ranges, which begin with the id for
//   missing and unknown values;
// - "label" i64 [labels], "target" f32 [targets], "weight" f32 [1].
//
// INVALID_ARGUMENT: options contradict each other or the columns; all of them are in the message.
// DATA_LOSS: more than bad_rows_max bad rows; the message has the first ten bad values, with file,
// line and column. Other errors: as TableSource::Load().
StatusOr<TrainAndTest> OpenTable(const TableOptions& options);

// A line for each column of the files, with its kind and values, and one with the numbers of rows.
// The table may lack a label. Skips bad rows. Errors: as TableSource::Load().
StatusOr<std::vector<std::string>> DescribeColumns(const TableOptions& options);

}  // namespace tandem::reader
