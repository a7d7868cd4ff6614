#include "pserver/deadline_driver.h"

#include "common/base/runner.h"

namespace tandem {

DeadlineDriver::DeadlineDriver(Shard& shard) : shard_(shard), thread_([this] { Loop(); }) {}

DeadlineDriver::~DeadlineDriver() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    cv_.NotifyAll();
  }
  thread_.join();
}

void DeadlineDriver::Poke() {
  MutexLock lock(mu_);
  poked_ = true;
  cv_.NotifyAll();
}

void DeadlineDriver::Loop() {
  SetThreadName("deadlines");
  while (true) {
    const Time next = shard_.NextDeadline();
    {
      MutexLock lock(mu_);
      while (!poked_ && !stop_ && SteadyNow() < next) {
        if (!cv_.WaitUntil(mu_, next)) break;
      }
      if (stop_) return;
      poked_ = false;
    }
    if (SteadyNow() >= next) shard_.ExpireWaiters();
  }
}

}  // namespace tandem
