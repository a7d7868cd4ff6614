// Text files with one record a line, read in pieces on several threads. Internal to the readers of
// such formats, each of which says what a line means (LineSink).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem {

// A line may be read so many bytes beyond its end, so that fields can be loaded word by word.
inline constexpr size_t kLineSlack = 64;
inline constexpr size_t kLineMax = size_t{1} << 20;  // bytes; longer lines are bad records

struct LineReading {
  int threads = 0;              // 0: as many as the machine has processors
  int64_t bad_records_max = 0;  // of a file; they are left out
  uint64_t records_max = 0;     // the first so many good records of the file; 0: all
  // Whether a file's first line is no record, but names its columns; null: it is one.
  bool (*names_columns)(std::string_view line) = nullptr;
};

// A piece of a file, in the form that the sink gave it.
struct LinePiece {
  std::shared_ptr<void> data;
  uint64_t records = 0;
};

// Takes the records of one piece after the other, each in order. One thread.
class LineSink {
 public:
  virtual ~LineSink() = default;
  // A line without its end, which is not blank. Keeps its record, if it has one (comments have
  // none), or says what is wrong with it and leaves everything as it was.
  virtual Status Add(std::string_view line) = 0;
  // Behind the last line of a piece: its records.
  virtual LinePiece Finish() = 0;
};

// For pieces of about so many bytes. One for each thread: may be called by all at once.
using MakeLineSink = std::function<std::unique_ptr<LineSink>(size_t bytes)>;

// The pieces in the order of the file. Where pieces begin depends on the file alone, not on
// threads. With records_max there are no more pieces than hold so many records.
// NOT_FOUND or PERMISSION_DENIED for the file, INVALID_ARGUMENT for a folder, DATA_LOSS naming
// file, line and offset for more than bad_records_max bad records, for no good one, for compressed
// data and when reading fails. `warnings` gets the first bad records and their number.
StatusOr<std::vector<LinePiece>> ReadLines(const std::string& path, const LineReading& reading,
                                           const MakeLineSink& make,
                                           std::vector<std::string>* warnings);

// The first line without its end; "" for an empty file. Errors as above.
StatusOr<std::string> FirstLine(const std::string& path);

// Without blanks and tabs at either end.
inline std::string_view Trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Whether `line` has no blank, tab, quote or control character: no byte of 0x22 or less.
// REQUIRES: kLineSlack bytes can be read behind the line.
bool IsPlain(std::string_view line);

// Cuts `line` at every `separator` into `fields`, at most `fields_max` of them, and returns how
// many there are: above fields_max where they did not fit.
// REQUIRES: kLineSlack bytes can be read behind the line.
size_t SplitLine(std::string_view line, char separator, std::string_view* fields,
                 size_t fields_max);

// The same for a line with quoted fields: "a, ""b""" between quotes is a, "b" (RFC 4180; quotes end
// on their line). Fields come without blanks around them or their quotes. What was quoted stands in
// `text`, with kLineSlack bytes behind it. DATA_LOSS for quotes that do not end, or do before their
// field does.
StatusOr<size_t> SplitQuotedLine(std::string_view line, char separator, std::string& text,
                                 std::string_view* fields, size_t fields_max);

}  // namespace tandem
