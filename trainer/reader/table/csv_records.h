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

// Reads one record after another. A quoted field may contain separators, doubled quotes and ends of
// lines. Blanks around fields are ignored, and so are empty lines and a byte order mark at the
// start. Not thread-safe. `text` must outlive it.
class CsvRecords {
 public:
  CsvRecords(std::string_view text, char separator);

  // Reads the next record. false: there is none. DATA_LOSS: the quotes of the record are malformed;
  // the next call continues with the line after the one where the record begins.
  StatusOr<bool> Next();

  // Valid until the next call of Next().
  const std::vector<std::string_view>& fields() const { return fields_; }
  int64_t line() const { return line_; }  // where the record begins, from 1

 private:
  Status ReadField();
  StatusOr<std::string_view> Quoted();
  void SkipBlanks();
  bool AtEndOfLine() const;
  void EndLine();

  const std::string_view text_;
  const char separator_;
  size_t at_ = 0;
  int64_t next_line_ = 1;  // line of at_
  int64_t line_ = 0;
  std::vector<std::string_view> fields_;
  std::deque<std::string> unquoted_;  // texts of fields with doubled quotes
};

}  // namespace tandem::reader
