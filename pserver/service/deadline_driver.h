// The thread that ends calls at their deadlines.
#pragma once

#include <thread>

#include "common/base/mutex.h"
#include "pserver/shard/shard.h"
#include "pserver/shard/trainers/deadlines.h"

namespace tandem::pserver {

// A thread that calls shard.ExpireWaiters() at shard.NextDeadline(). Thread-safe.
class DeadlineDriver final : public Deadlines {
 public:
  DeadlineDriver(Shard& shard, const RealClock& clock);
  ~DeadlineDriver() override;  // joins the thread
  // Wakes the thread only if the thread would sleep longer than until `deadline`. Most calls
  // therefore need no thread switch.
  void Poke(Time deadline) override;

 private:
  void Loop();

  Shard& shard_;  // not owned; must outlive this object
  Mutex mu_;
  CondVar cv_;
  Time wake_ TD_GUARDED_BY(mu_) = Time::min();  // time until which the thread sleeps
  bool stop_ TD_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace tandem::pserver
