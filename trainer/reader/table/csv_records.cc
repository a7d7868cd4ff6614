#include "trainer/reader/table/csv_records.h"

#include <algorithm>

#include "common/base/require.h"
#include "trainer/reader/input/text_lines.h"

namespace tandem::reader {

CsvRecords::CsvRecords(std::string_view text, char separator) : text_(text), separator_(separator) {
  TD_REQUIRE(separator != '"' && separator != '\n' && separator != '\r');
  if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
}

bool CsvRecords::AtEndOfLine() const {
  if (at_ >= text_.size()) return true;
  return text_[at_] == '\n' || text_.substr(at_, 2) == "\r\n" ||
         (text_[at_] == '\r' && at_ + 1 == text_.size());
}

void CsvRecords::SkipBlanks() {
  while (at_ < text_.size() && text_[at_] != separator_ &&
         (text_[at_] == ' ' || text_[at_] == '\t')) {
    ++at_;
  }
}

// Moves at_ to the start of the next line.
void CsvRecords::EndLine() {
  const size_t end = text_.find('\n', at_);
  at_ = end == std::string_view::npos ? text_.size() : end + 1;
  ++next_line_;
}

// Reads a quoted field, up to and including its closing quote. Returns the text without quotes.
StatusOr<std::string_view> CsvRecords::Quoted() {
  TD_REQUIRE(text_[at_] == '"');
  const size_t begin = at_ + 1;
  bool doubled = false;
  size_t end = begin;
  for (;; ++end) {
    end = text_.find('"', end);
    if (end == std::string_view::npos) {
      return DataLoss("field %d has no closing quote", fields_.size() + 1);
    }
    if (text_.substr(end + 1, 1) != "\"") break;
    doubled = true;
    ++end;  // two quotes mean one quote
  }
  const std::string_view raw = text_.substr(begin, end - begin);
  at_ = end + 1;
  if (!doubled) return raw;
  std::string& text = unquoted_.emplace_back();
  for (size_t i = 0; i < raw.size(); ++i) {
    text += raw[i];
    if (raw[i] == '"') ++i;
  }
  return std::string_view(text);
}

// Reads the field at at_. Stops before the separator or the end of the line.
Status CsvRecords::ReadField() {
  SkipBlanks();
  if (at_ < text_.size() && text_[at_] == '"') {
    TD_ASSIGN_OR_RETURN(const std::string_view field, Quoted());
    SkipBlanks();
    if (!AtEndOfLine() && text_[at_] != separator_) {
      return DataLoss("field %d has text after its closing quote", fields_.size() + 1);
    }
    fields_.push_back(field);
    return OkStatus();
  }
  const size_t begin = at_;
  const char ends[] = {separator_, '\n'};
  at_ = std::min(text_.find_first_of(std::string_view(ends, 2), at_), text_.size());
  std::string_view field = text_.substr(begin, at_ - begin);
  const bool last = at_ == text_.size() || text_[at_] == '\n';
  if (last && field.ends_with('\r')) field.remove_suffix(1);
  fields_.push_back(Trimmed(field));
  return OkStatus();
}

StatusOr<bool> CsvRecords::Next() {
  for (;;) {
    if (at_ >= text_.size()) return false;
    fields_.clear();
    unquoted_.clear();
    line_ = next_line_;
    const size_t begin = at_;
    for (;;) {
      if (Status status = ReadField(); !status.ok()) {
        at_ = begin;
        EndLine();
        return status;
      }
      if (AtEndOfLine()) break;
      ++at_;  // skips the separator
    }
    const bool empty = fields_.size() == 1 && fields_[0].empty();
    const std::string_view record = text_.substr(begin, at_ - begin);
    next_line_ += std::count(record.begin(), record.end(), '\n');
    EndLine();
    if (!empty) return true;
  }
}

}  // namespace tandem::reader
