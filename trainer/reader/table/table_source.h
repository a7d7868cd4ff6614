// The rows of the files of a table: text files, and arrays of numpy. Internal to the table reader.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem::reader {

// A value of a row: a text of a text file, or a number of an array.
struct TableCell {
  std::string_view text;
  double number = 0;     // value of an array; NaN: no value
  bool is_text = false;  // text is set, not number
};

struct TableRow {
  std::span<const TableCell> cells;  // one per column, unless `status` is not OK
  Status status;                     // DATA_LOSS: the row has another number of fields
  const std::string* file = nullptr;
  int64_t place = 0;  // line in a text file, from 1; index in an array, from 0
};

// "file:line" or "file: row N".
std::string PlaceOf(const TableRow& row);

// Files that were read into memory, in order. Immutable, so thread-safe.
class TableSource {
 public:
  // Text files are read one after another, and so are .npz files. The arrays of .npy files are
  // beside each other. Errors: NOT_FOUND, PERMISSION_DENIED; DATA_LOSS: a file is damaged, empty or
  // has no header. INVALID_ARGUMENT: files of several kinds, or whose columns differ.
  // UNIMPLEMENTED: a Parquet file or an array of another type. The message names the file.
  static StatusOr<TableSource> Load(const std::vector<std::string>& files, char separator);
  TableSource(TableSource&&) noexcept;
  TableSource& operator=(TableSource&&) noexcept;
  ~TableSource();

  // A column of a text file has its name in the first line. Column k of an array `x` of several
  // columns is "x.k", an array of one column is "x".
  const std::vector<std::string>& columns() const { return columns_; }
  bool is_text() const { return is_text_; }  // false: arrays

  // Calls `visit` for every row, in order. The row is valid only during the call.
  void Visit(const std::function<void(const TableRow&)>& visit) const;

 private:
  struct File;

  TableSource();
  Status AddText(const std::string& path, std::vector<uint8_t> bytes);
  Status AddArrays(const std::string& path, std::vector<uint8_t> bytes);
  Status AddColumns(const std::string& path, std::vector<std::string> columns);
  void VisitText(const File& file, const std::function<void(const TableRow&)>& visit) const;
  void VisitArrays(const File& file, const std::function<void(const TableRow&)>& visit) const;

  char separator_ = ',';
  bool is_text_ = true;
  std::vector<std::string> columns_;
  std::vector<std::unique_ptr<File>> files_;
};

}  // namespace tandem::reader
