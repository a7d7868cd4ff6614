#include "pserver/shard/delta_base.h"

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

void DeltaBase::Kept(const ShardSnapshot& image) {
  MutexLock lock(mu_);
  if (image.base || image.order < order_min_) return;
  version_ = image.version;
  deltas_ = 0;
}

void DeltaBase::GoOnBehind(const ShardSnapshot& image) {
  MutexLock lock(mu_);
  version_ = image.whole;
  deltas_ = 0;
}

void DeltaBase::Forget() {
  MutexLock lock(mu_);
  version_.reset();
  order_min_ = made_ + 1;
}

}  // namespace tandem::pserver
