// A number in a file, overwritten in place.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem::pserver {

// Thread-safe.
class PersistentCounter {
 public:
  explicit PersistentCounter(std::string path) : path_(std::move(path)) {}

  // Writes the number, which then survives the death of the process; nothing is synced. Creates the
  // file if missing.
  Status Note(uint64_t number);
  // Returns 0 if there is no file, or an empty one (a power failure before the first number).
  // DATA_LOSS: the file is damaged (the message names it).
  StatusOr<uint64_t> Read() const;

 private:
  const std::string path_;
  Mutex mu_;
  Fd file_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::pserver
