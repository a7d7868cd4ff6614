// The threads of parallel loops (OpenMP) that a thread begins.
#pragma once

#include "common/base/processors.h"

namespace tandem {

// Of one thread, which calls it.
class LoopThreads {
 public:
  // Sends the others of its loops of `threads` off the processor that it has come to.
  void KeepApart(int threads) {
    if (threads > 1 && leader_.Moved()) Spread(threads);
  }

 private:
  void Spread(int threads);

  LeaderCpuTracker leader_;
};

}  // namespace tandem
