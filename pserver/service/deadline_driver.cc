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
  // Maximum time between two checks. When a trainer becomes unresponsive, new calls that wait for
  // it must fail before their deadlines.
  constexpr Duration kSleepMax = std::chrono::milliseconds(100);
  SetThreadName("deadlines");
  while (true) {
    {
      // Sets `wake_` before the query, so that a call that begins between the query and the sleep
      // still shortens the sleep (Poke).
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
