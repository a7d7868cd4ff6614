#include "pserver/client/carrier/leases.h"

namespace tandem {

std::shared_ptr<const void> PsLeases::Take(const std::shared_ptr<PsLeases>& leases) {
  {
    MutexLock lock(leases->mu_);
    ++leases->count_;
  }
  return std::shared_ptr<const void>(leases.get(), [leases](const void*) { leases->GiveBack(); });
}

void PsLeases::GiveBack() {
  MutexLock lock(mu_);
  if (--count_ == 0) none_.NotifyAll();
}

bool PsLeases::WaitForNone(Time deadline) {
  MutexLock lock(mu_);
  while (count_ != 0) {
    if (!none_.WaitUntil(mu_, deadline) && count_ != 0) return false;
  }
  return true;
}

}  // namespace tandem
