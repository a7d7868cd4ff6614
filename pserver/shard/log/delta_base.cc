#include "pserver/shard/log/delta_base.h"

namespace tandem::pserver {

std::optional<uint64_t> DeltaBase::version() const {
  MutexLock lock(mu_);
  return version_;
}

uint64_t DeltaBase::NextOrder() {
  MutexLock lock(mu_);
  return ++made_;
}

bool DeltaBase::TakesDelta(int deltas_max) {
  MutexLock lock(mu_);
  const bool delta = version_.has_value() && deltas_ < deltas_max;
  if (delta) ++deltas_;
  return delta;
}

void DeltaBase::OnStored(const ShardSnapshot& snapshot) {
  stored_number_ = snapshot.log_number;
  MutexLock lock(mu_);
  if (snapshot.base || snapshot.order < order_min_) return;
  version_ = snapshot.version;
  deltas_ = 0;
}

void DeltaBase::OnRestored(const ShardSnapshot& snapshot) {
  stored_number_ = snapshot.log_number;
  Forget();
}

void DeltaBase::Resume(const ShardSnapshot& snapshot) {
  MutexLock lock(mu_);
  version_ = snapshot.whole;
  deltas_ = 0;
}

void DeltaBase::Forget() {
  MutexLock lock(mu_);
  version_.reset();
  order_min_ = made_ + 1;
}

}  // namespace tandem::pserver
