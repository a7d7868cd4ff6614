#include "common/os/processors.h"

#include "common/base/require.h"

namespace tandem {
namespace {

constexpr int kFewProcessors = 8;

}  // namespace

bool LeaderCpuTracker::Moved() {
  const int now = sched_getcpu();
  if (now == at_ || now < 0) return false;
  at_ = now;
  if (sched_getaffinity(0, sizeof(all_), &all_) != 0) return false;
  others_ = all_;
  CPU_CLR(now, &others_);
  const int count = CPU_COUNT(&others_);
  return count > 0 && count < kFewProcessors;
}

void LeaderCpuTracker::SendAway(pthread_t thread) const {
  TD_REQUIRE(CPU_COUNT(&others_) > 0);
  (void)pthread_setaffinity_np(thread, sizeof(others_), &others_);
}

void LeaderCpuTracker::LetGo(pthread_t thread) const {
  TD_REQUIRE(CPU_COUNT(&all_) > CPU_COUNT(&others_));
  (void)pthread_setaffinity_np(thread, sizeof(all_), &all_);
}

}  // namespace tandem
