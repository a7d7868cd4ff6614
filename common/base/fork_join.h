// A few threads that do parts of one piece of work together with the thread that has it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/runner.h"

namespace tandem {

// Not thread-safe: one piece of work at a time. Its threads sleep between two of them, so that a
// process which shares its processors with others takes nothing from them.
class ForkJoin {
 public:
  // `threads` >= 1, the caller's counted: 1 has none of its own.
  ForkJoin(const std::string& name, int threads);

  int threads() const { return threads_; }
  // Calls work(part) for each part of [0, parts) at once, part 0 on the calling thread; returns
  // when all have returned. REQUIRES: 1 <= parts <= threads().
  void Run(int parts, const std::function<void(int)>& work);

 private:
  const int threads_;
  LeaderCpuTracker caller_;
  std::unique_ptr<ThreadPool> others_;  // null: none
};

}  // namespace tandem
