// A queue with a maximum length, which threads can close.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "common/base/mutex.h"

namespace tandem {

enum class PushResult { kOk, kFull, kClosed };

// A first-in, first-out queue. It is thread-safe for any number of producers and consumers.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {}

  // Adds `item` without blocking. Moves from `item` only if the result is kOk.
  PushResult TryPush(T&& item) TD_EXCLUDES(mu_) { return Push(std::move(item), Time::min()); }

  // Adds `item`. Blocks while the queue is full, and returns kFull at `deadline`. Moves from `item`
  // only if the result is kOk.
  PushResult Push(T&& item, Time deadline) TD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (!closed_ && items_.size() >= capacity_) {
      if (deadline == Time::min() || !not_full_.WaitUntil(mu_, deadline)) {
        if (!closed_ && items_.size() >= capacity_) return PushResult::kFull;
      }
    }
    if (closed_) return PushResult::kClosed;
    items_.push_back(std::move(item));
    not_empty_.NotifyOne();
    return PushResult::kOk;
  }

  // Blocks until the queue has space or is closed. Returns false if `deadline` has passed before.
  bool WaitForSpace(Time deadline) TD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (!closed_ && items_.size() >= capacity_) {
      if (!not_full_.WaitUntil(mu_, deadline)) return closed_ || items_.size() < capacity_;
    }
    return true;
  }

  // Removes and returns the oldest item. Blocks while the queue is empty. Returns nullopt if
  // `deadline` has passed, or if the queue is closed and empty.
  std::optional<T> Pop(Time deadline) TD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    while (items_.empty() && !closed_) {
      if (!not_empty_.WaitUntil(mu_, deadline) && items_.empty()) return std::nullopt;
    }
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    not_full_.NotifyOne();
    return item;
  }

  // Closes the queue: later pushes are rejected, but queued items can still be popped. Further
  // calls have no effect.
  void Close() TD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    closed_ = true;
    not_full_.NotifyAll();
    not_empty_.NotifyAll();
  }

  // Removes and destroys all queued items.
  void Clear() TD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    items_.clear();
    not_full_.NotifyAll();
  }

  bool closed() const TD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return closed_;
  }
  size_t size() const TD_EXCLUDES(mu_) {
    MutexLock lock(mu_);
    return items_.size();
  }
  size_t capacity() const { return capacity_; }

 private:
  const size_t capacity_;
  mutable Mutex mu_;
  CondVar not_full_, not_empty_;
  std::deque<T> items_ TD_GUARDED_BY(mu_);
  bool closed_ TD_GUARDED_BY(mu_) = false;
};

}  // namespace tandem
