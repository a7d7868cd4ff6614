// Reads the lines of a file one after another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/status.h"
#include "trainer/reader/input/input_file.h"

namespace tandem::reader {

// Not thread-safe.
class LineCursor {
 public:
  struct Line {
    std::string_view text;  // without its end; at most kLineMax + 1 bytes; valid until Next
    uint64_t offset = 0;    // offset of its first byte in the file
  };

  explicit LineCursor(InputFile file) : file_(std::move(file)) {}

  // Reads the next line. Returns false at the end of the file. The last line needs no end. Errors:
  // those of InputFile::Read.
  StatusOr<bool> Next(Line* line);
  uint64_t bytes() const { return base_ + buffer_.size() + dropped_; }  // bytes read so far
  uint64_t size() const { return file_.size(); }  // size of the file when it was opened, in bytes
  const std::string& path() const { return file_.path(); }

 private:
  Status Fill();

  InputFile file_;
  std::string buffer_;
  uint64_t base_ = 0;  // offset of buffer_[0] in the file
  // Begin of the next line, and the position up to which the buffer has no end of this line.
  size_t at_ = 0, searched_ = 0;
  uint64_t dropped_ = 0;  // bytes of the next line that are not in the buffer
  bool end_ = false;      // the whole file is read
};

}  // namespace tandem::reader
