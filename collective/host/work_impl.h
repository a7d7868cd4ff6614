// The implementation of Work that communicators return: an operation in the communicator's queue.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "collective/communicator.h"
#include "collective/status_copy.h"
#include "common/base/mutex.h"
#include "common/threads/bounded_queue.h"

namespace tandem::collective {

class WorkImpl final : public Work {
 public:
  explicit WorkImpl(Collective call) : call_(std::move(call)) {}

  Status Wait(Time deadline) override TD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (!done_) {
      if (!ended_.WaitUntil(mu_, deadline) && !done_) {
        return DeadlineExceeded("%s: the wait timed out, but the operation is still running",
                                ToString(call_));
      }
    }
    return OwnCopy(status_);
  }
  void OnDone(std::function<void(const Status&)> done) override TD_EXCLUDES(mu_) {
    {
      MutexLock lock(mu_);
      if (!done_) {
        callbacks_.push_back(std::move(done));
        return;
      }
    }
    done(OwnCopy(status_));  // `status_` does not change after this
  }
  bool finished() const override TD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return done_;
  }

  void Finish(const Status& status) TD_EXCLUDES(mu_) {
    std::vector<std::function<void(const Status&)>> callbacks;
    {
      MutexLock lock(mu_);
      status_ = OwnCopy(status);
      done_ = true;
      callbacks.swap(callbacks_);
      ended_.NotifyAll();
    }
    for (const auto& callback : callbacks) callback(status);
  }

  // Fails the operation because the queue did not accept it. `room`: maximum length of the queue.
  void Refuse(PushResult why, size_t room) {
    Finish(why == PushResult::kFull
               ? ResourceExhausted("%s: %d operations already wait, and the queue is full",
                                   ToString(call_), room)
               : Cancelled("%s: the communicator is closed", ToString(call_)));
  }

  const Collective& call() const { return call_; }
  uint64_t sequence = 0;  // number of the operation, set before the operation is queued

 private:
  const Collective call_;
  mutable Mutex mu_;
  CondVar ended_;
  bool done_ TD_GUARDED_BY(mu_) = false;
  Status status_;  // result of the operation; guarded by mu_ until done_ is set
  std::vector<std::function<void(const Status&)>> callbacks_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::collective
