// The common part of the figures about dense parameters: they are on a pserver in this process, and
// all of them are pushed and pulled.
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

// One value for each element of all variables.
using Values = std::vector<float>;
inline Values Filled(float value) { return Values(kVariables * kNumel, value); }

// kVariables variables of `numel` elements, with SGD in a_sync mode. Not thread-safe.
class DensePs {
 public:
  explicit DensePs(int64_t numel = kNumel) : numel_(numel) {}

  Status Start(const pserver::PserverOptions& served, const ps::PsOptions& options);
  // Pushes every variable once, one push each, kUnderWay at a time.
  Status PushAll(const Values& gradients);
  // Every variable in one pull.
  Status PullAll();
  pserver::Pserver& server() { return *ps_.server; }

  // Seconds of each push and pull since the previous call.
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
  PsPair ps_;  // last member: its calls use the rest
};

}  // namespace tandem::bench
