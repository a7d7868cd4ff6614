// Common code of the benchmarks of dense parameters. The parameters are on a pserver in this
// process. Each round pushes and pulls all parameters.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "tests/bench/ps_pair.h"

namespace tandem::bench {

inline constexpr int kVariables = 64, kUnderWay = 8;
inline constexpr int64_t kNumel = 1 << 18;
inline constexpr size_t kBytes = kNumel * sizeof(float), kAllBytes = kVariables * kBytes;
inline constexpr float kRate = 1e-6f;

// One value per element of all variables, one variable after the other.
using Values = std::vector<float>;
inline Values Filled(float value) { return Values(kVariables * kNumel, value); }

// A pserver and a client with kVariables variables of `numel` elements each, with SGD in a_sync
// mode. Not thread-safe.
class DensePs {
 public:
  explicit DensePs(int64_t numel = kNumel) : numel_(numel) {}

  Status Start(const pserver::PserverOptions& served, const ps::PsOptions& options);
  // Sends one push per variable. Up to kUnderWay pushes are in progress at a time.
  Status PushAll(const Values& gradients);
  // Pulls all variables with one request.
  Status PullAll();
  pserver::Pserver& server() { return *ps_.server; }

  // Each function returns the seconds of the pushes, or of the pulls, that ended since the previous
  // call of the function: one value per push or pull.
  std::vector<double> TakePushSeconds();
  std::vector<double> TakePullSeconds() { return std::exchange(pull_seconds_, {}); }

 private:
  void Pushed(const Status& status, Time start);

  const int64_t numel_;
  Values values_ = Filled(1);
  std::vector<ps::PsTensor> params_;
  uint64_t step_ = 0;
  std::vector<double> pull_seconds_;
  Mutex mu_;
  CondVar done_;
  int under_way_ TD_GUARDED_BY(mu_) = 0;
  Status first_ TD_GUARDED_BY(mu_);
  std::vector<double> push_seconds_ TD_GUARDED_BY(mu_);
  PsPair ps_;  // the last member, so it is destroyed first: calls in progress use the other members
};

}  // namespace tandem::bench
