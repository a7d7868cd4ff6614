// Loads a table from text files, numpy arrays or memory, and visits its rows. Internal to the table
// reader.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "trainer/reader/table/memory_columns.h"

namespace tandem::reader {

// A value of a row: the text of a field in a text file or a column, or a number of an array.
struct TableCell {
  std::string_view text;
  double number = 0;     // number of an array; NaN: the value is missing
  bool is_text = false;  // true: `text` has the value; false: `number` has it
};

struct TableRow {
  std::span<const TableCell> cells;  // one cell for each column; empty if `status` is not OK
  Status status;                     // DATA_LOSS: malformed quotes or a wrong number of fields
  const std::string* file = nullptr;
  int64_t place = 0;     // text file: line, from 1; otherwise index of the row, from 0
  bool is_line = false;  // whether `place` is a line
};

// Returns the location of a row for a message: "FILE:LINE" for a text file, otherwise "FILE: row
// N".
std::string PlaceOf(const TableRow& row);

// A table in memory. Immutable, and therefore thread-safe.
class TableSource {
 public:
  // Reads all files. Each text file or .npz file adds rows; each .npy file adds columns. NOT_FOUND
  // or PERMISSION_DENIED: a file cannot be opened. DATA_LOSS: a file is damaged, is empty or has no
  // line with column names. INVALID_ARGUMENT: the files have different formats or columns, a column
  // name occurs twice, or a file is too large or not UTF-8. UNIMPLEMENTED: a file is a Parquet
  // file, or an array has an unsupported form. Every message names the file.
  static StatusOr<TableSource> Load(const std::vector<std::string>& files, char separator);
  // Uses columns that are in memory already. INVALID_ARGUMENT: there is no column, the columns have
  // different numbers of rows, or two have the same name. DATA_LOSS: there is no row.
  static StatusOr<TableSource> FromMemory(std::shared_ptr<const MemoryColumns> columns);
  TableSource(TableSource&&) noexcept;
  TableSource& operator=(TableSource&&) noexcept;
  ~TableSource();

  // Returns the names of all columns. The first line of a text file contains the names. Column k of
  // an array `x` with several columns is "x.k"; the column of an array `x` with one column is "x".
  const std::vector<std::string>& columns() const { return columns_; }
  // Returns false if "x.0" is a column of an array "x", true if names with a dot are plain names.
  bool is_text() const { return is_text_; }

  // Calls `visit` for each row, in order. A row is valid only during its call of `visit`.
  void Visit(const std::function<void(const TableRow&)>& visit) const;

 private:
  struct File;

  TableSource();
  Status AddText(const std::string& path, std::vector<uint8_t> bytes);
  Status AddArrays(const std::string& path, std::vector<uint8_t> bytes);
  Status AddColumns(const std::string& path, std::vector<std::string> columns);
  void VisitText(const File& file, const std::function<void(const TableRow&)>& visit) const;
  void VisitMemory(const std::function<void(const TableRow&)>& visit) const;
  void VisitArrays(const File& file, const std::function<void(const TableRow&)>& visit) const;

  char separator_ = ',';
  bool is_text_ = true;
  std::vector<std::string> columns_;
  std::vector<std::unique_ptr<File>> files_;
  std::shared_ptr<const MemoryColumns> memory_;  // null: the table is in files_
};

}  // namespace tandem::reader
