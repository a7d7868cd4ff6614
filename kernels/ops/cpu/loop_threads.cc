#include "kernels/ops/cpu/loop_threads.h"

#include <omp.h>

namespace tandem::ops {

void LoopThreads::Spread(int threads) {
#pragma omp parallel num_threads(threads)
  if (omp_get_thread_num() != 0) {
    leader_.SendAway(pthread_self());
    leader_.LetGo(pthread_self());
  }
}

}  // namespace tandem::ops
