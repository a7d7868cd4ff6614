// Unpacks gzip data. Internal to the readers.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem::reader {

inline bool IsGzip(std::span<const uint8_t> file) {
  return file.size() >= 2 && file[0] == 0x1f && file[1] == 0x8b;
}

// Unpacks gzip data (RFC 1952, one or more members) in pieces. `file` and `name` must outlive this
// object.
class Gunzip {
 public:
  // `name` begins every message.
  Gunzip(std::span<const uint8_t> file, const std::string& name) : file_(file), name_(name) {}
  ~Gunzip() {
    if (open_) inflateEnd(&z_);
  }
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  // Initialises zlib. RESOURCE_EXHAUSTED: there is not enough memory for zlib.
  Status Open();

  // Appends up to `bytes_max` bytes to `out`. Appends fewer bytes only at the end of the data,
  // after it has verified the checksum. DATA_LOSS: the data are damaged or truncated. REQUIRES:
  // Open() was OK.
  Status Read(size_t bytes_max, std::vector<uint8_t>& out);

 private:
  Status Step();
  Status EndOfMember();

  std::span<const uint8_t> file_;
  const std::string& name_;
  z_stream z_{};
  size_t fed_ = 0;  // bytes of file_ passed to zlib
  bool open_ = false, done_ = false;
};

}  // namespace tandem::reader
