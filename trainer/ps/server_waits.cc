#include "trainer/ps/server_waits.h"

#include "common/base/check.h"

namespace tandem::trainer {

void ServerWaits::BeginStep(int64_t step, ps::PsClient& client) {
  if (step % kStepsEach != 0) return;
  {
    MutexLock lock(mu_);
    if (asking_) return;
    asking_ = true;
  }
  client.AskWaits([this](const StatusOr<std::vector<double>>& seconds) {
    MutexLock lock(mu_);
    DCHECK(asking_);
    asking_ = false;
    // Ignores an error, because the calls of the step report the cause of the error.
    if (seconds.ok()) seconds_ = *seconds;
  });
}

std::vector<double> ServerWaits::Seconds() const {
  MutexLock lock(mu_);
  return seconds_;
}

}  // namespace tandem::trainer
