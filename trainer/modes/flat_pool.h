// Flat buffers that communications share: each has one while it is under way.
#pragma once

#include <utility>
#include <vector>

#include "collective/communicator.h"
#include "common/base/mutex.h"

namespace tandem::trainer {

// Thread-safe. As many buffers come to be as are needed at once, each of the largest size.
class FlatPool {
 public:
  // Who takes one needs so many bytes. Not while anybody has one.
  void Reserve(size_t bytes) {
    MutexLock lock(mu_);
    if (bytes <= bytes_) return;
    bytes_ = bytes;
    free_.clear();
    made_ = 0;
  }
  // One that was given back, or memory of `communicator`.
  StatusOr<Buffer> Take(collective::Communicator& communicator) {
    MutexLock lock(mu_);
    if (free_.empty()) {
      TD_ASSIGN_OR_RETURN(Buffer made, communicator.Allocate(bytes_));
      ++made_;
      return made;
    }
    Buffer buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }
  void Give(Buffer buffer) {
    MutexLock lock(mu_);
    free_.push_back(std::move(buffer));
  }
  // Of all that there are.
  size_t bytes() const {
    MutexLock lock(mu_);
    return bytes_ * made_;
  }

 private:
  mutable Mutex mu_;
  size_t bytes_ TD_GUARDED_BY(mu_) = 0;
  size_t made_ TD_GUARDED_BY(mu_) = 0;
  std::vector<Buffer> free_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::trainer
