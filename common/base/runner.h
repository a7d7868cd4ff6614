// Where work runs: a bounded pool of threads, or the caller itself (tests, simulator).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/bounded_queue.h"
#include "common/base/processors.h"
#include "common/base/status.h"

namespace tandem {

// Thread-safe.
class Runner {
 public:
  virtual ~Runner() = default;
  // Runs `work` some time later (InlineRunner: before returning). RESOURCE_EXHAUSTED when the queue
  // is full, CANCELLED after shutdown; then `work` was not and will not be run.
  [[nodiscard]] virtual Status Post(std::function<void()> work) = 0;
};

class InlineRunner final : public Runner {
 public:
  Status Post(std::function<void()> work) override;
};

// `threads` workers named `name`-0, `name`-1, ... over one queue of at most `queue_max` items.
// The destructor runs what was accepted, then joins.
class ThreadPool final : public Runner {
 public:
  ThreadPool(const std::string& name, int threads, size_t queue_max);
  ~ThreadPool() override;
  Status Post(std::function<void()> work) override;
  size_t queued() const { return queue_.size(); }
  // LeaderCpuTracker's, for all workers.
  void SendAway(const LeaderCpuTracker& leader);
  void LetGo(const LeaderCpuTracker& leader);

 private:
  BoundedQueue<std::function<void()>> queue_;
  std::vector<std::thread> threads_;
};

// Names the calling thread (at most 15 characters are kept) for debuggers and timelines.
void SetThreadName(const std::string& name);

}  // namespace tandem
