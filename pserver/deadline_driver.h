// The thread that watches a shard's deadlines.
#pragma once

#include <thread>

#include "common/base/mutex.h"
#include "pserver/shard.h"

namespace tandem {

// `timeout_ms` as a client says it, from now on: at least 1 ms, at most a day.
Time DeadlineAfter(uint64_t timeout_ms);

// Thread-safe. Calls shard.ExpireWaiters() when shard.NextDeadline() has come; REQUIRES that the
// shard's clock is the real one.
class DeadlineDriver {
 public:
  explicit DeadlineDriver(Shard& shard);
  ~DeadlineDriver();  // joins
  // Somebody waits anew, until `deadline`. Wakes the thread only when it would sleep for longer, so
  // that a call costs no switch of threads.
  void Poke(Time deadline);

 private:
  void Loop();

  Shard& shard_;  // Not owned; must outlive this.
  Mutex mu_;
  CondVar cv_;
  Time wake_ TD_GUARDED_BY(mu_) = Time::min();  // until then the thread sleeps
  bool stop_ TD_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace tandem
