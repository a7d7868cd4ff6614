// A number in a file. Each write overwrites the file in place.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem::pserver {

// Writes and reads a number in a file. Thread-safe.
class PersistentCounter {
 public:
  explicit PersistentCounter(std::string path) : path_(std::move(path)) {}

  // Writes the number, which then survives the death of the process, but not of the machine:
  // nothing is synced. Creates the file if it is missing.
  Status Note(uint64_t number);
  // Returns the number. Returns 0 if there is no file, or if the file is empty, which a power
  // failure before the first number can cause. DATA_LOSS: the file is damaged (the message names
  // the file).
  StatusOr<uint64_t> Read() const;

 private:
  const std::string path_;
  Mutex mu_;
  Fd file_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::pserver
