// The waits of a reader of a stream: another thread ends them, and log lines tell of them.
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

// One wait of a reader for records. Says when a log line about the wait is due. Not thread-safe.
class RecordWait {
 public:
  // `log_every`: time between two log lines.
  explicit RecordWait(Duration log_every) : log_every_(log_every), next_log_(since_ + log_every) {}

  Duration waited() const { return SteadyNow() - since_; }
  // Returns whether the caller must log a line now.
  bool LogDue() {
    const Time now = SteadyNow();
    if (now < next_log_) return false;
    next_log_ = now + log_every_;
    return true;
  }

 private:
  const Duration log_every_;
  const Time since_ = SteadyNow();
  Time next_log_;
};

}  // namespace tandem::reader
