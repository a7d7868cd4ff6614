#include "pserver/service/deadline_driver.h"

#include <algorithm>

#include "common/threads/runner.h"

namespace tandem::pserver {

DeadlineDriver::DeadlineDriver(Shard& shard, const RealClock& clock)
    : Deadlines(clock), shard_(shard), thread_([this] { Loop(); }) {}

DeadlineDriver::~DeadlineDriver() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    cv_.NotifyAll();
  }
  thread_.join();
}

void DeadlineDriver::Poke(Time deadline) {
  MutexLock lock(mu_);
  if (deadline >= wake_) return;
  wake_ = Time::min();
  cv_.NotifyAll();
}

void DeadlineDriver::Loop() {
  // Maximum time between two checks. If a trainer is lost, a new waiting call may have to fail
  // before its deadline.
  constexpr Duration kSleepMax = std::chrono::milliseconds(100);
  SetThreadName("deadlines");
  while (true) {
    {
      // Sets `wake_` before the query. Otherwise the thread would miss a call that begins between
      // the query and the sleep.
      MutexLock lock(mu_);
      wake_ = Time::max();
    }
    const Time next = shard_.NextDeadline();
    {
      MutexLock lock(mu_);
      if (next != Time::max()) wake_ = std::min({wake_, next, SteadyNow() + kSleepMax});
      while (!stop_ && SteadyNow() < wake_) {
        if (!cv_.WaitUntil(mu_, wake_)) break;
      }
      if (stop_) return;
    }
    if (SteadyNow() >= next) shard_.ExpireWaiters();
  }
}

}  // namespace tandem::pserver
