// A pool of flat buffers that communications share. Each communication has one buffer while it is
// in flight.
#pragma once

#include <utility>
#include <vector>

#include "collective/communicator.h"
#include "common/base/mutex.h"

namespace tandem::trainer {

// Thread-safe. Holds as many buffers as were ever in use at the same time, each of the largest
// reserved size.
class FlatPool {
 public:
  // Makes every buffer at least `bytes` large. No buffer may be in use.
  void Reserve(size_t bytes) {
    MutexLock lock(mu_);
    if (bytes <= bytes_) return;
    bytes_ = bytes;
    free_.clear();
    made_ = 0;
  }
  // Returns a free buffer, or new memory of `communicator`.
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
  // Total size of all buffers.
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
