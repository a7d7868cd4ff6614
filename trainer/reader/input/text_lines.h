// Text files with one record per line, which several threads read in pieces. Internal to the
// readers of such formats. Each format has a LineSink, which parses the lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem::reader {

// Number of bytes after the end of a line that must be readable, so that fields can be loaded word
// by word.
inline constexpr size_t kLineSlack = 64;
inline constexpr size_t kLineMax = size_t{1} << 20;  // bytes; a longer line is a bad record

struct LineReading {
  int threads = 0;  // number of threads; 0: number of processors
  // Largest accepted number of bad records in a file; bad records are skipped.
  int64_t bad_records_max = 0;
  uint64_t records_max = 0;  // number of good records to use, from the first on; 0: all
  // Returns whether the first line of a file names the columns, so that the line is no record.
  // Null: the first line is a record.
  bool (*names_columns)(std::string_view line) = nullptr;
};

// The records of a piece of a file, in the form that the sink chooses.
struct LinePiece {
  std::shared_ptr<void> data;
  uint64_t records = 0;
};

// Receives the lines of one piece after another. The lines of a piece are in the order of the file.
// Not thread-safe.
class LineSink {
 public:
  virtual ~LineSink() = default;
  // Adds a line without its end. The line is not blank. Stores the record of the line, unless the
  // line is a comment. On an error the sink is unchanged.
  virtual Status Add(std::string_view line) = 0;
  // Returns the records of the piece. The reader calls Finish after the last line of a piece.
  virtual LinePiece Finish() = 0;
};

// Adds the lines to the sink. In the place of a bad line it adds `empty`, which is a good one.
// `on_bad` returns an error if the reading must end. kLineSlack bytes after each line and after
// `empty` must be readable.
Status AddLines(std::span<const std::string_view> lines, std::string_view empty,
                const std::function<Status(size_t line, const Status& why)>& on_bad,
                LineSink& sink);

// Returns whether the line has no character besides blanks and tabs.
bool IsBlankLine(std::string_view line);

// Makes a sink for pieces of about `bytes` bytes. Each thread uses one sink. Several threads may
// call this function concurrently.
using MakeLineSink = std::function<std::unique_ptr<LineSink>(size_t bytes)>;

// Reads the file and returns its pieces in order. The boundaries of pieces depend only on the file,
// and not on the number of threads. With records_max, the last piece is the piece in which the
// number of records reaches records_max.
//
// NOT_FOUND or PERMISSION_DENIED: the file cannot be opened. INVALID_ARGUMENT: `path` is a
// directory. DATA_LOSS: there are more than bad_records_max bad records or no good record, the data
// is compressed, or a read fails. The message names file, line and offset. `warnings` receives the
// first bad records and the number of bad records.
StatusOr<std::vector<LinePiece>> ReadLines(const std::string& path, const LineReading& reading,
                                           const MakeLineSink& make,
                                           std::vector<std::string>* warnings);

// Returns the first line of the file without its end; "": the file is empty. Errors: those of
// ReadLines().
StatusOr<std::string> FirstLine(const std::string& path);

// Returns `text` without the blanks and tabs at its ends.
inline std::string_view Trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Returns whether `line` has no blank, tab, quote or control character: every byte is above 0x22.
// REQUIRES: kLineSlack bytes after the line are readable.
bool IsPlain(std::string_view line);

// Splits `line` at every `separator` into `fields`, which has space for `fields_max` fields.
// Returns the number of fields in the line. A result above fields_max means that `fields` lacks the
// last fields. REQUIRES: kLineSlack bytes after the line are readable.
size_t SplitLine(std::string_view line, char separator, std::string_view* fields,
                 size_t fields_max);

// Splits a line with quoted fields, like SplitLine. The text a, ""b"" between quotes means a, "b"
// (RFC 4180; a quoted field ends on its line). Removes quotes, and blanks around fields. Stores the
// texts that had quotes in `text`, with kLineSlack bytes after each. DATA_LOSS: a quoted field does
// not end, or text follows its last quote.
StatusOr<size_t> SplitQuotedLine(std::string_view line, char separator, std::string& text,
                                 std::string_view* fields, size_t fields_max);

}  // namespace tandem::reader
