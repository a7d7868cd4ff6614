// Runs functions on a bounded pool of threads, or on the calling thread (tests, simulator).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/status.h"
#include "common/os/processors.h"
#include "common/threads/bounded_queue.h"

namespace tandem {

// The interface of objects that run functions. Thread-safe.
class Runner {
 public:
  virtual ~Runner() = default;
  // Runs `work` later on another thread; an InlineRunner runs it before Post returns.
  // RESOURCE_EXHAUSTED: the queue is full. CANCELLED: shut down. After an error `work` never runs.
  [[nodiscard]] virtual Status Post(std::function<void()> work) = 0;
};

class InlineRunner final : public Runner {
 public:
  Status Post(std::function<void()> work) override;
};

// A pool of `threads` workers, which are named `name`-0, `name`-1, ... They share one queue of at
// most `queue_max` functions. The destructor runs all accepted functions, then joins the workers.
class ThreadPool final : public Runner {
 public:
  ThreadPool(const std::string& name, int threads, size_t queue_max);
  ~ThreadPool() override;
  Status Post(std::function<void()> work) override;
  size_t queued() const { return queue_.size(); }
  // Call the functions of LeaderCpuTracker with the same names for all worker threads.
  void SendAway(const LeaderCpuTracker& leader);
  void LetGo(const LeaderCpuTracker& leader);

 private:
  BoundedQueue<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
};

// Names the calling thread for debuggers and timelines. Uses the first 15 characters.
void SetThreadName(const std::string& name);

}  // namespace tandem
