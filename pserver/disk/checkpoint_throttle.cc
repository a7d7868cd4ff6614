#include "pserver/disk/checkpoint_throttle.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "common/base/require.h"

namespace tandem::pserver {
namespace {

// While pushes arrive, the writing thread works for 1 / kPartsOfTime of the time, and pauses for
// the rest.
constexpr int kPartsOfTime = 30;

Duration ProcessorTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + Duration(time.tv_nsec);
}

}  // namespace

CheckpointThrottle::CheckpointThrottle(Options options)
    : options_{std::move(options.pushes),
               options.worked ? std::move(options.worked) : &ProcessorTime} {
  TD_REQUIRE(options_.pushes != nullptr);
}

Duration CheckpointThrottle::Rest(Duration wanted, Duration rested) {
  MutexLock lock(mu_);
  const auto left = [&]() TD_NO_ANALYSIS {
    return patience_.size() == 1 ? *patience_.begin() - rested : Duration::zero();
  };
  const Duration rest = std::min(wanted, left());
  const Time end = SteadyNow() + rest;
  while (left() > Duration::zero() && SteadyNow() < end) (void)changed_.WaitUntil(mu_, end);
  return std::max(rest, Duration::zero());
}

CheckpointThrottle::Wish::Wish(CheckpointThrottle* pace, Duration patience)
    : pace_(pace), patience_(patience) {
  TD_REQUIRE(patience >= Duration::zero());
  if (pace_ == nullptr) return;
  MutexLock lock(pace_->mu_);
  pace_->patience_.insert(patience_);
  pace_->changed_.NotifyAll();
}

CheckpointThrottle::Wish::~Wish() {
  if (pace_ == nullptr) return;
  MutexLock lock(pace_->mu_);
  const auto own = pace_->patience_.find(patience_);
  TD_REQUIRE(own != pace_->patience_.end());
  pace_->patience_.erase(own);
}

CheckpointThrottle::File::File(CheckpointThrottle* pace) : pace_(pace) {
  if (pace_ == nullptr) return;
  worked_ = pace_->options_.worked();
  pushes_ = pace_->options_.pushes();
}

void CheckpointThrottle::File::Wrote() {
  if (pace_ == nullptr) return;
  const uint64_t pushes = pace_->options_.pushes();
  const Duration worked = pace_->options_.worked();
  if (pushes != pushes_) {
    rested_ += pace_->Rest((kPartsOfTime - 1) * (worked - worked_), rested_);
  }
  pushes_ = pushes;
  worked_ = pace_->options_.worked();
}

}  // namespace tandem::pserver
