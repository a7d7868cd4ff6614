#include "trainer/modes/comms/rank_waits.h"

namespace tandem::trainer {

void RankWaits::Began() {
  MutexLock lock(mu_);
  if (under_way_++ == 0) began_ = SteadyNow();
}

void RankWaits::Ended() {
  MutexLock lock(mu_);
  if (--under_way_ == 0) waited_ += SteadyNow() - began_;
}

Status RankWaits::BeginStep(int64_t step, collective::Communicator& hosts, Duration patience) {
  const bool due = step % kStepsEach == 0 && hosts.size() > 1;
  if (exchange_ != nullptr && (due || exchange_->finished())) {
    TD_RETURN_IF_ERROR(EndExchange(patience));
  }
  if (!due) return OkStatus();
  {
    MutexLock lock(mu_);
    mine_ = waited_ / std::chrono::microseconds(1);
  }
  all_.assign(static_cast<size_t>(hosts.size()), 0);
  exchange_ = hosts.AllGather(&mine_, all_.data(), 1, DType::kI64, {.what = "waits of all ranks"});
  return OkStatus();
}

Status RankWaits::EndExchange(Duration patience) {
  const Status ended = exchange_->Wait(SteadyNow() + patience);
  if (!exchange_->finished()) return ended;  // keeps the exchange, which still uses mine_ and all_
  exchange_.reset();
  if (!ended.ok()) return OkStatus();  // the communications of the next step report the error
  MutexLock lock(mu_);
  told_.assign(all_.begin(), all_.end());
  for (double& seconds : told_) seconds /= 1e6;
  return OkStatus();
}

std::vector<double> RankWaits::Seconds() const {
  MutexLock lock(mu_);
  return told_;
}

}  // namespace tandem::trainer
