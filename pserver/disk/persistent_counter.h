// A number in a file, written in place.
#pragma once

#include <cstdint>
#include <string>

#include "common/base/fd.h"
#include "common/base/mutex.h"
#include "common/base/status.h"

namespace tandem {

// Thread-safe.
class PersistentCounter {
 public:
  explicit PersistentCounter(std::string path) : path_(std::move(path)) {}

  // Survives the death of the process from here on; nothing is synced. Makes the file when missing.
  Status Note(uint64_t number);
  // 0 when there is no file, or an empty one: a power failure came before the first number.
  // DATA_LOSS naming it when it is damaged.
  StatusOr<uint64_t> Read() const;

 private:
  const std::string path_;
  Mutex mu_;
  Fd file_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem
