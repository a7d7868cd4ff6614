#include "tests/bench/dense_ps.h"

#include <string>
#include <utility>

#include "kernels/exec/comm.h"

namespace tandem::bench {

Status DensePs::Start(const pserver::PserverOptions& served, const ps::PsOptions& options) {
  TD_RETURN_IF_ERROR(ps_.Start(served, options));
  std::vector<ps::PsVariable> variables;
  for (int v = 0; v < kVariables; ++v) {
    variables.push_back({"w" + std::to_string(v), Shape{numel_}});
    params_.push_back({variables.back().name, values_.data() + v * numel_, numel_});
  }
  TD_RETURN_IF_ERROR(ps_.client->Configure(variables, ps::PsMode::kASync, {"sgd", {}}).status());
  return ps_.client->InitOrFetch(params_).status();
}

void DensePs::Pushed(const Status& status, Time start) {
  MutexLock lock(mu_);
  if (first_.ok()) first_ = status;
  push_seconds_.push_back(Seconds(SteadyNow() - start));
  --under_way_;
  done_.NotifyOne();
}

Status DensePs::PushAll(const Values& gradients) {
  for (int v = 0; v < kVariables; ++v) {
    {
      MutexLock lock(mu_);
      while (under_way_ == kUnderWay) done_.WaitUntil(mu_, Time::max());
      ++under_way_;
    }
    ps_.client->Push(step_++, kRate, {{params_[v].variable, gradients.data() + v * numel_, numel_}},
                     [this, start = SteadyNow()](const Status& status) { Pushed(status, start); });
  }
  MutexLock lock(mu_);
  while (under_way_ > 0) done_.WaitUntil(mu_, Time::max());
  return first_;
}

Status DensePs::PullAll() {
  const Time start = SteadyNow();
  exec::CommDone done;
  ps_.client->Pull(0, params_, [&](const StatusOr<uint64_t>& v) { done.Complete(v.status()); });
  const Status pulled = done.Wait(Time::max());
  pull_seconds_.push_back(Seconds(SteadyNow() - start));
  return pulled;
}

std::vector<double> DensePs::TakePushSeconds() {
  MutexLock lock(mu_);
  return std::exchange(push_seconds_, {});
}

}  // namespace tandem::bench
