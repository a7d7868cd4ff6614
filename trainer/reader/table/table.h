// Reads tables whose columns are numbers, texts, classes, targets, weights or times. The files are
// text files (RFC 4180) or numpy arrays. The converted values of all rows stay in memory.
//
// The number of a row in the files and a seed determine whether the row is a training, validation
// or test row. Therefore the parts do not depend on the number of ranks. A bad row is skipped, but
// the numbers of the other rows do not change. Means, deviations and vocabularies come only from
// training rows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/reader/input/dataset.h"
#include "trainer/reader/input/row_split.h"
#include "trainer/reader/table/column_values.h"
#include "trainer/reader/table/memory_columns.h"

namespace tandem::reader {

struct TableColumn {
  // The name of a column. A name with "*" at its end matches all columns whose names begin with the
  // text before the "*". The name of a numpy array matches all columns of the array.
  std::string name;
  ColumnKind kind = ColumnKind::kInfer;
  // kLabel: classes in order; empty: all values of the files, sorted.
  std::vector<std::string> classes;
};

struct TableOptions {
  std::vector<std::string> files, test_files;   // paths of the files and of separate test files
  std::shared_ptr<const MemoryColumns> memory;  // the columns, instead of files; null: files
  char separator = ',';
  std::vector<std::string> missing = {"NA", "N/A", "NaN", "nan", "null", "None", "?"};
  std::vector<TableColumn> columns;
  ColumnKind others = ColumnKind::kInfer;  // kind of the columns that `columns` does not name
  bool standardise = false;  // scales kFloat and kTime columns to mean 0 and deviation 1
  bool missing_indicator = false;
  SplitShares split = {1, 0, 0};  // shares of training, validation and test rows
  uint64_t split_seed = 1;
  bool evaluate_validation = false;  // true: the test data are the validation rows
  uint32_t samples_max = 0;          // number of training rows to use, from the first on; 0: all
  int64_t bad_rows_max = 0;          // largest accepted number of bad rows in all files
};

// Opens a table. All datasets have the following fields. If the table has no columns for a field,
// the field is absent.
//
// - "x" f32 [features]: kFloat, kTime and kOneHot columns in their order, then the indicators;
// - "ids" i64 [categories]: ids of the columns are consecutive ranges, which begin with the id for
//   missing and unknown values;
// - "label" i64 [labels], "target" f32 [targets], "weight" f32 [1].
//
// INVALID_ARGUMENT: the options contradict each other or the columns; the message names all entries
// of `columns` without a match. DATA_LOSS: a part has no rows, or there are more than bad_rows_max
// bad rows. For bad rows, the message has the first ten bad values, with file, line and column.
// Other errors are those of TableSource::Load() and TableSource::FromMemory().
StatusOr<TrainAndTest> OpenTable(const TableOptions& options);

// Returns a line for each column of the files, with its kind and values, and a line with the number
// of rows of each part (training, validation, test). Accepts a table without a label. Skips bad
// rows, and returns a line for each of the first ten bad values. Errors: those of
// TableSource::Load(), and INVALID_ARGUMENT like OpenTable().
StatusOr<std::vector<std::string>> DescribeColumns(const TableOptions& options);

}  // namespace tandem::reader
