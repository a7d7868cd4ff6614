// A text format with one record per line, for records that arrive line by line (streams). The
// readers of whole files use LineSink (text_lines.h).
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "trainer/reader/input/dataset.h"

namespace tandem::reader {

// Called for a bad record: its index among the lines, and the reason. An error ends the parsing.
using OnBadLine = std::function<Status(size_t line, const Status& why)>;

// Converts lines to samples. Immutable, and therefore thread-safe.
class LineFormat {
 public:
  virtual ~LineFormat() = default;

  virtual const std::vector<SampleField>& fields() const = 0;
  // Returns whether the line is a record, good or bad. A blank line or a comment is none. `first`:
  // the line is the first one of its file.
  virtual bool IsRecord(std::string_view line, bool first) const = 0;
  // Converts each line to a sample. A bad line becomes a sample without values: its label is 0, and
  // each of its ids is the id of a missing value. `out`: as in Dataset::Fill, for lines.size()
  // samples. REQUIRES: each line is a record, and kLineSlack bytes after it are readable.
  virtual Status Parse(std::span<const std::string_view> lines, const OnBadLine& on_bad,
                       std::span<void* const> out) const = 0;
};

}  // namespace tandem::reader
