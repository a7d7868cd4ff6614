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

  // Writes the number to the file, which is created if missing. The number survives the death of
  // the process, but not of the machine, because the file is not synced.
  Status Note(uint64_t number);
  // Returns the number. Returns 0 if the file is missing or empty: a power failure before the first
  // number was on the disk can leave an empty file. DATA_LOSS: the file is damaged (the message
  // names the file).
  StatusOr<uint64_t> Read() const;

 private:
  const std::string path_;
  Mutex mu_;
  Fd file_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::pserver
