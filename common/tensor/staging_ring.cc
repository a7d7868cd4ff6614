#include "common/tensor/staging_ring.h"

#include <cstring>

#include "common/base/check.h"

namespace tandem {

Status StagingRing::Copy(void* to, const void* from, size_t bytes) {
  CHECK_LE(bytes, kSlotBytes);
  MutexLock lock(mu_);
  const size_t slot = next_;
  if (used_[slot]) TD_RETURN_IF_ERROR(driver_.wait(slot));
  std::byte* const staged = memory_ + slot * kSlotBytes;
  std::memcpy(staged, from, bytes);
  TD_RETURN_IF_ERROR(driver_.copy(to, staged, bytes));
  next_ = (slot + 1) % kSlots;
  used_[slot] = true;
  return driver_.mark(slot);
}

}  // namespace tandem
