// Keeps the threads of a parallel loop (OpenMP) on different CPUs.
#pragma once

#include "common/os/processors.h"

namespace tandem::ops {

// Keeps the OpenMP threads of one calling thread on different CPUs. Only the calling thread may use
// the object.
class LoopThreads {
 public:
  // If the calling thread has moved to another CPU, moves the other threads of its loops away from
  // that CPU. `threads`: number of threads per loop.
  void KeepApart(int threads) {
    if (threads > 1 && leader_.Moved()) Spread(threads);
  }

 private:
  void Spread(int threads);

  LeaderCpuTracker leader_;
};

}  // namespace tandem::ops
