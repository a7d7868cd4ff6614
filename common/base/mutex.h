// A mutex and a condition variable. The mutex is a std::mutex with clang's thread-safety
// attributes, because clang ignores GUARDED_BY on a bare std::mutex. Every wait on the condition
// variable has a deadline.
#pragma once

#include <condition_variable>
#include <mutex>

#include "common/base/clock.h"

#if defined(__clang__)
#define TD_ATTRIBUTE(x) __attribute__((x))
#else
#define TD_ATTRIBUTE(x)
#endif
#define TD_CAPABILITY(x) TD_ATTRIBUTE(capability(x))
#define TD_SCOPED_CAPABILITY TD_ATTRIBUTE(scoped_lockable)
#define TD_GUARDED_BY(x) TD_ATTRIBUTE(guarded_by(x))
#define TD_REQUIRES(...) TD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define TD_EXCLUDES(...) TD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define TD_ACQUIRE(...) TD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define TD_RELEASE(...) TD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define TD_NO_ANALYSIS TD_ATTRIBUTE(no_thread_safety_analysis)

namespace tandem {

class TD_CAPABILITY("mutex") Mutex {
 public:
  void Lock() TD_ACQUIRE() { mu_.lock(); }
  void Unlock() TD_RELEASE() { mu_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mu_;
};

class TD_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mu) TD_ACQUIRE(mu) : mu_(mu) { mu_.Lock(); }
  ~MutexLock() TD_RELEASE() { mu_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mu_;
};

class CondVar {
 public:
  // Releases `mu` and blocks until a notification, a spurious wake-up or `deadline`. Then acquires
  // `mu` again. Returns false if `deadline` has passed.
  bool WaitUntil(Mutex& mu, Time deadline) TD_REQUIRES(mu) TD_NO_ANALYSIS {
    std::unique_lock<std::mutex> lock(mu.mu_, std::adopt_lock);
    // The wait has a limit of one year, because wait_until(time_point::max()) overflows inside
    // libstdc++.
    const Time cap = SteadyNow() + std::chrono::hours(24 * 365);
    const bool in_time =
        cv_.wait_until(lock, deadline < cap ? deadline : cap) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void NotifyOne() { cv_.notify_one(); }
  void NotifyAll() { cv_.notify_all(); }

 private:
  std::condition_variable cv_;
};

}  // namespace tandem
