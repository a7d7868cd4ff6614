#include "trainer/server_waits.h"

#include "common/base/mutex.h"

namespace tandem {

struct ServerWaits::Told {
  Mutex mu;
  bool asking TD_GUARDED_BY(mu) = false;
  std::vector<double> seconds TD_GUARDED_BY(mu);
};

ServerWaits::ServerWaits() : told_(std::make_shared<Told>()) {}

void ServerWaits::BeginStep(int64_t step, PsClient& client) {
  if (step % kStepsEach != 0) return;
  {
    MutexLock lock(told_->mu);
    if (told_->asking) return;
    told_->asking = true;
  }
  client.AskWaits([told = told_](const StatusOr<std::vector<double>>& seconds) {
    MutexLock lock(told->mu);
    told->asking = false;
    if (seconds.ok()) told->seconds = *seconds;  // else the step's own calls say what is wrong
  });
}

std::vector<double> ServerWaits::Seconds() const {
  MutexLock lock(told_->mu);
  return told_->seconds;
}

}  // namespace tandem
