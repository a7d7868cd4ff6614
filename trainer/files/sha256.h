// SHA-256 of files and of data in memory.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "common/base/status.h"

namespace tandem::trainer {

// Computes the SHA-256 (FIPS 180-4) of data that is added in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Add(const void* data, size_t bytes);
  // Returns the hash in lower-case hex. The caller may call Finish once, after the last Add.
  std::string Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns the hash of the file's content in the form that `sha256sum` prints.
StatusOr<std::string> Sha256File(const std::string& path);

}  // namespace tandem::trainer
