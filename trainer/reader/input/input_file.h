// A file that can be read at any offset. Internal to the readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/status.h"

namespace tandem::reader {

// An open file. Thread-safe.
class InputFile {
 public:
  // Opens the file. NOT_FOUND: the file does not exist. PERMISSION_DENIED: this process may not
  // read the file. INVALID_ARGUMENT: `path` is not a regular file.
  static StatusOr<InputFile> Open(const std::string& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }  // size when the file was opened

  // Reads up to `bytes` bytes from `offset` on. Returns the number of bytes that were read. This
  // number is smaller than `bytes` only at the end of the file, which may be shorter than size().
  // DATA_LOSS: the read fails; the message names file and offset.
  StatusOr<size_t> Read(uint64_t offset, char* to, size_t bytes) const;

 private:
  InputFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
  uint64_t size_ = 0;
};

}  // namespace tandem::reader
