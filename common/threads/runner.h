// Runs work on a bounded pool of threads, or on the calling thread (tests, simulator).
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

// The interface. Thread-safe.
class Runner {
 public:
  virtual ~Runner() = default;
  // Runs `work` later; InlineRunner: before it returns. RESOURCE_EXHAUSTED: the queue is full.
  // CANCELLED: after shutdown. On an error `work` never runs.
  [[nodiscard]] virtual Status Post(std::function<void()> work) = 0;
};

class InlineRunner final : public Runner {
 public:
  Status Post(std::function<void()> work) override;
};

// Has `threads` workers named `name`-0, `name`-1, ... and one queue of at most `queue_max` items.
// The destructor runs all accepted work, then joins the workers.
class ThreadPool final : public Runner {
 public:
  ThreadPool(const std::string& name, int threads, size_t queue_max);
  ~ThreadPool() override;
  Status Post(std::function<void()> work) override;
  size_t queued() const { return queue_.size(); }
  // Calls these functions of `leader` for all workers.
  void SendAway(const LeaderCpuTracker& leader);
  void LetGo(const LeaderCpuTracker& leader);

 private:
  BoundedQueue<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
};

// Names the calling thread for debuggers and timelines. Only the first 15 characters count.
void SetThreadName(const std::string& name);

}  // namespace tandem
