#include "common/rpc/stranger_budget.h"

#include <algorithm>

namespace tandem::rpc {

bool StrangerShare::TakeCall(Time now) {
  MutexLock lock(budget_->mu_);
  if (left_) return true;
  if (!budget_->calls_.Take(now)) return false;
  ++calls_;
  return true;
}

bool StrangerShare::TakeBytes(size_t count, Time now) {
  MutexLock lock(budget_->mu_);
  if (left_) return true;
  const auto bytes = static_cast<double>(count);
  if (!budget_->bytes_.Take(now, bytes)) return false;
  bytes_ += bytes;
  return true;
}

double StrangerShare::spent() const {
  MutexLock lock(budget_->mu_);
  const StrangerLimits& limits = budget_->limits_;
  return std::min(1.0, std::max(calls_ / limits.calls_burst, bytes_ / limits.bytes_burst));
}

void StrangerShare::Leave() {
  MutexLock lock(budget_->mu_);
  if (left_) return;
  left_ = true;
  budget_->calls_.GiveBack(calls_);
  budget_->bytes_.GiveBack(bytes_);
}

}  // namespace tandem::rpc
