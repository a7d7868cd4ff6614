// The thread that watches a shard's deadlines.
#pragma once

#include <thread>

#include "common/base/mutex.h"
#include "pserver/shard/deadlines.h"
#include "pserver/shard/shard.h"

namespace tandem {

// Calls shard.ExpireWaiters() when shard.NextDeadline() has come.
class DeadlineDriver final : public Deadlines {
 public:
  DeadlineDriver(Shard& shard, const RealClock& clock);
  ~DeadlineDriver() override;  // joins
  // Wakes the thread only when it would sleep for longer, so that a call costs no switch of
  // threads.
  void Poke(Time deadline) override;

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
