// A few threads that, together with their caller, run the parts of one task.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/threads/runner.h"

namespace tandem {

// Runs tasks in parallel parts. Not thread-safe: one task at a time. Its threads sleep between
// tasks, so they use no processor time of other processes.
class ForkJoin {
 public:
  // `threads` >= 1 includes the caller; 1: no additional thread.
  ForkJoin(const std::string& name, int threads);

  int threads() const { return threads_; }
  // Calls work(part) for each part of [0, parts) in parallel, part 0 on the calling thread. Returns
  // when all calls have returned. REQUIRES: 1 <= parts <= threads().
  void Run(int parts, const std::function<void(int)>& work);

 private:
  const int threads_;
  LeaderCpuTracker caller_;
  std::unique_ptr<ThreadPool> others_;  // null: no additional threads
};

}  // namespace tandem
