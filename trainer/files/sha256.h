// SHA-256 of files and of data.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "common/base/status.h"

namespace tandem::trainer {

// SHA-256 (FIPS 180-4) of data that is added in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(const void* data, size_t bytes);
  // The hash in lower-case hex. Call it once.
  std::string Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The hash of the file's bytes, as `sha256sum` prints it.
StatusOr<std::string> Sha256File(const std::string& path);

}  // namespace tandem::trainer
