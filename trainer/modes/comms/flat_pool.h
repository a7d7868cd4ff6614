// A pool of flat buffers that communications share. Each communication in flight has one buffer of
// the pool.
#pragma once

#include <utility>
#include <vector>

#include "collective/communicator.h"
#include "common/base/mutex.h"

namespace tandem::trainer {

// The number of buffers is the maximum that was in use at the same time. Each buffer has the
// largest reserved size. Thread-safe.
class FlatPool {
 public:
  // Increases the size of all buffers to `bytes`, if the buffers are smaller. The caller must not
  // call Reserve while a buffer is in use.
  void Reserve(size_t bytes) {
    MutexLock lock(mu_);
    if (bytes <= bytes_) return;
    bytes_ = bytes;
    free_.clear();
    made_ = 0;
  }
  // Returns a free buffer. If there is no free buffer, allocates a new one from `communicator`. The
  // caller returns the buffer with Give.
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
  // Returns the total size of all buffers in bytes.
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
