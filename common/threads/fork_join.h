// Runs the parts of one task in parallel on the calling thread and a few other threads.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/threads/runner.h"

namespace tandem {

// Runs the parts of a task in parallel. Not thread-safe: one task at a time. The threads sleep
// between tasks and use no processor time.
class ForkJoin {
 public:
  // `threads` (at least 1) includes the calling thread. 1: no additional thread.
  ForkJoin(const std::string& name, int threads);

  int threads() const { return threads_; }
  // Calls work(part) for each part of [0, parts) in parallel, part 0 on the calling thread. Returns
  // after all calls of `work` have returned. REQUIRES: 1 <= parts <= threads().
  void Run(int parts, const std::function<void(int)>& work);

 private:
  const int threads_;
  LeaderCpuTracker caller_;
  std::unique_ptr<ThreadPool> others_;  // threads other than the caller; null: none
};

}  // namespace tandem
