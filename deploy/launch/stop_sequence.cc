#include "deploy/launch/stop_sequence.h"

#include "common/base/require.h"
#include "common/threads/stop_request.h"

namespace tandem::deploy {

StopSequence::StopSequence(Duration grace) : grace_(grace) {
  TD_REQUIRE(grace >= Duration::zero());
}

StopSequence::Request StopSequence::TakeSignal(int signal, Time now) {
  TD_REQUIRE(signal > 0);
  if (signal_ == 0) {
    signal_ = signal;
    signalled_at_ = now;
    return Request::kStop;
  }
  if (now - signalled_at_ < kSameStopRequest) return Request::kRepeated;
  kill_now_ = true;
  kill_at_ = now;
  return Request::kKill;
}

void StopSequence::StopTrainers(Time now) {
  phase_ = Phase::kStoppingTrainers;
  kill_at_ = now + grace_;
}

void StopSequence::StopPservers(Time now) {
  TD_REQUIRE(phase_ != Phase::kStoppingPservers);
  phase_ = Phase::kStoppingPservers;
  kill_at_ = now + grace_;
}

bool StopSequence::TakeKill(Time now) {
  if (now < kill_at_) return false;
  kill_at_ = Time::max();
  return true;
}

}  // namespace tandem::deploy
