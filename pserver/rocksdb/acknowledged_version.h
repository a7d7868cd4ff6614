// The version of the newest checkpoint that was acknowledged, in a file. A checkpoint of a lower
// version shows that an acknowledged one was lost.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "common/base/status.h"

namespace tandem::pserver {

// Not thread-safe: two writes must not overlap.
class AcknowledgedVersion {
 public:
  explicit AcknowledgedVersion(std::string path) : path_(std::move(path)) {}
  // Replaces the number atomically and durably. RESOURCE_EXHAUSTED: the disk is full.
  Status Write(uint64_t version) const;
  // Returns the number; 0: there is no file. DATA_LOSS: the file is damaged.
  StatusOr<uint64_t> Read() const;

 private:
  const std::string path_;
};

}  // namespace tandem::pserver
