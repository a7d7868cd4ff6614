// Files with initial rows of a table (model.init of a job file): csv, npz and safetensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::trainer {

// A file and the table that gets its rows.
struct RowFile {
  std::string table;
  std::string path;
};
// The table that gets the rows.
struct RowTable {
  std::string name;
  int64_t height = 0, dim = 0;  // number of rows; number of values of a row
};
// Rows by ascending ids. Row i has the values values[i * dim] to values[(i + 1) * dim - 1].
struct FileRows {
  std::vector<int64_t> ids;
  std::vector<float> values;
};

// Reads a whole file into memory and checks it. Logs its progress every few seconds. The end of the
// name decides about the format:
// - .csv: a line for each row: its id, then its values, separated by commas. A first line that does
//   not begin with a number is a header, and skipped, if a further field is no number, or if it
//   begins with "id", "ids" or an empty field. A byte order mark of UTF-8 is skipped.
// - .npz, .safetensors: the arrays TABLE/ids (i64 [n]) and TABLE/rows (f32 [n, dim]), which tandem
//   export --rows writes; or ids and rows; or TABLE (f32 [n, dim]), the rows 0 to n - 1.
// NOT_FOUND: the file does not exist. DATA_LOSS: the file is malformed. INVALID_ARGUMENT: the name
// ends otherwise; a row has another number of values than the table; an id is outside the table or
// occurs twice; a value is NaN or infinite. The message names the file, and the row or line.
StatusOr<FileRows> ReadRowFile(const std::string& path, const RowTable& table);

}  // namespace tandem::trainer
