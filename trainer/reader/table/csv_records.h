// Splits a text of separated values into records (RFC 4180). Internal to the table reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem::reader {

// Reads the records of `text` in order. A quoted field may contain separators, doubled quotes and
// ends of lines. CsvRecords ignores blanks around fields, empty lines, and a byte order mark at the
// start of the text. Not thread-safe. `text` must outlive this object.
class CsvRecords {
 public:
  CsvRecords(std::string_view text, char separator);

  // Reads the next record. Returns false at the end of the text. DATA_LOSS: the quotes of the
  // record are malformed. After this error the next call continues at the second line of the
  // malformed record.
  StatusOr<bool> Next();

  // Returns the fields of the current record, which are valid until the next call of Next().
  const std::vector<std::string_view>& fields() const { return fields_; }
  int64_t line() const { return line_; }  // line where the current record begins, from 1

 private:
  Status ReadField();
  StatusOr<std::string_view> Quoted();
  void SkipBlanks();
  bool AtEndOfLine() const;
  void EndLine();

  const std::string_view text_;
  const char separator_;
  size_t at_ = 0;
  int64_t next_line_ = 1;  // number of the line of at_, from 1
  int64_t line_ = 0;
  std::vector<std::string_view> fields_;
  std::deque<std::string> unquoted_;  // texts of the current fields that had doubled quotes
};

}  // namespace tandem::reader
