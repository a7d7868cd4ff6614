// Text files with one record per line, read in pieces on several threads. Internal to the readers
// of such formats. Each format parses its lines with a LineSink.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem::reader {

// Bytes after the end of a line that may be read, so that fields can be loaded word by word.
inline constexpr size_t kLineSlack = 64;
inline constexpr size_t kLineMax = size_t{1} << 20;  // bytes; longer lines are bad records

struct LineReading {
  int threads = 0;              // 0: number of processors
  int64_t bad_records_max = 0;  // per file; bad records are skipped
  uint64_t records_max = 0;     // uses only the first records_max good records of the file; 0: all
  // Whether a file's first line names the columns and is not a record; null: it is a record.
  bool (*names_columns)(std::string_view line) = nullptr;
};

// A piece of a file, in the sink's form.
struct LinePiece {
  std::shared_ptr<void> data;
  uint64_t records = 0;
};

// Receives the records of one piece after another, each in order. Not thread-safe.
class LineSink {
 public:
  virtual ~LineSink() = default;
  // Adds a line, without its end; the line is not blank. Stores its record, if it has one (comments
  // do not). On an error the sink is unchanged.
  virtual Status Add(std::string_view line) = 0;
  // Called after the last line of a piece; returns its records.
  virtual LinePiece Finish() = 0;
};

// Makes a sink for pieces of about `bytes` bytes. Each thread has one sink; several threads may
// call this concurrently.
using MakeLineSink = std::function<std::unique_ptr<LineSink>(size_t bytes)>;

// Returns the pieces in the order of the file. The boundaries depend only on the file, not on the
// threads. With records_max the pieces end with the one that reaches this number.
//
// NOT_FOUND or PERMISSION_DENIED: the file cannot be opened. INVALID_ARGUMENT: `path` is a
// directory. DATA_LOSS, naming file, line and offset: more than bad_records_max bad records, no
// good record, compressed data, or a read error. `warnings` receives the first bad records and
// their number.
StatusOr<std::vector<LinePiece>> ReadLines(const std::string& path, const LineReading& reading,
                                           const MakeLineSink& make,
                                           std::vector<std::string>* warnings);

// The first line without its end; "": an empty file. Errors: as ReadLines().
StatusOr<std::string> FirstLine(const std::string& path);

// `text` without blanks and tabs at either end.
inline std::string_view Trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Whether `line` has no blank, tab, quote or control character: no byte of 0x22 or less. REQUIRES:
// kLineSlack bytes after the line are readable.
bool IsPlain(std::string_view line);

// Splits `line` at every `separator` into `fields`, at most `fields_max`. Returns the number of
// fields; above fields_max: they did not fit. REQUIRES: kLineSlack bytes after the line are
// readable.
size_t SplitLine(std::string_view line, char separator, std::string_view* fields,
                 size_t fields_max);

// The same for a line with quoted fields: "a, ""b""" between quotes is a, "b" (RFC 4180; quotes end
// on their line). Removes blanks around fields, and quotes. Unquoted text is stored in `text`, with
// kLineSlack bytes after it. DATA_LOSS: a quote does not end, or ends before its field.
StatusOr<size_t> SplitQuotedLine(std::string_view line, char separator, std::string& text,
                                 std::string_view* fields, size_t fields_max);

}  // namespace tandem::reader
