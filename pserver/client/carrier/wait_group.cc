#include "pserver/client/carrier/wait_group.h"

#include "common/base/require.h"

namespace tandem::ps {

std::shared_ptr<const void> WaitGroup::Take(const std::shared_ptr<WaitGroup>& leases) {
  {
    MutexLock lock(leases->mu_);
    ++leases->count_;
  }
  return std::shared_ptr<const void>(leases.get(), [leases](const void*) { leases->GiveBack(); });
}

void WaitGroup::GiveBack() {
  MutexLock lock(mu_);
  TD_REQUIRE(count_ > 0);
  if (--count_ == 0) none_.NotifyAll();
}

bool WaitGroup::WaitForNone(Time deadline) {
  MutexLock lock(mu_);
  while (count_ != 0) {
    if (!none_.WaitUntil(mu_, deadline) && count_ != 0) return false;
  }
  return true;
}

}  // namespace tandem::ps
