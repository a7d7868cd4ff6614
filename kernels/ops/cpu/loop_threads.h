// Keeps the threads of a parallel loop (OpenMP) on different CPUs.
#pragma once

#include "common/os/processors.h"

namespace tandem {

// Belongs to one thread. Only this thread may call it.
class LoopThreads {
 public:
  // Moves the other threads of loops with `threads` threads away from the CPU to which this thread
  // has moved.
  void KeepApart(int threads) {
    if (threads > 1 && leader_.Moved()) Spread(threads);
  }

 private:
  void Spread(int threads);

  LeaderCpuTracker leader_;
};

}  // namespace tandem
