// The thread that watches a shard's deadlines.
#pragma once

#include <thread>

#include "common/base/mutex.h"
#include "pserver/shard/shard.h"
#include "pserver/shard/trainers/deadlines.h"

namespace tandem::pserver {

// Calls shard.ExpireWaiters() at shard.NextDeadline(). Thread-safe.
class DeadlineDriver final : public Deadlines {
 public:
  DeadlineDriver(Shard& shard, const RealClock& clock);
  ~DeadlineDriver() override;  // joins the thread
  // Wakes the thread only if it would sleep past `deadline`, so that a call needs no thread switch.
  void Poke(Time deadline) override;

 private:
  void Loop();

  Shard& shard_;  // not owned; must outlive this
  Mutex mu_;
  CondVar cv_;
  Time wake_ TD_GUARDED_BY(mu_) = Time::min();  // the thread sleeps until then
  bool stop_ TD_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace tandem::pserver
