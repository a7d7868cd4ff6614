// Ends the waits of a reader of a stream from another thread.
#pragma once

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"

namespace tandem::reader {

// Thread-safe.
class WaitSwitch {
 public:
  void End() {
    MutexLock lock(mu_);
    ended_ = true;
    changed_.NotifyAll();
  }
  void Allow() {
    MutexLock lock(mu_);
    ended_ = false;
  }
  // Blocks for `time`. CANCELLED: End was called.
  Status Wait(Duration time) {
    const Time until = SteadyNow() + time;
    MutexLock lock(mu_);
    while (!ended_ && SteadyNow() < until) changed_.WaitUntil(mu_, until);
    if (!ended_) return OkStatus();
    return Cancelled("the wait for records was stopped");
  }
  // CANCELLED: End was called.
  Status Check() { return Wait(Duration::zero()); }

 private:
  Mutex mu_;
  CondVar changed_;
  bool ended_ TD_GUARDED_BY(mu_) = false;
};

}  // namespace tandem::reader
