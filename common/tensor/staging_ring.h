// A ring of small staging buffers in host memory. The host writes a value to a buffer and
// continues. The device copies the value from the buffer when the device's stream reaches the copy.
// So the host does not wait for a copy of a value that changes with each training step, such as a
// learning rate.
#pragma once

#include <array>
#include <cstddef>
#include <functional>

#include "common/base/mutex.h"
#include "common/base/status.h"

namespace tandem {

// Uses the buffers ("slots") of the ring in turn. Waits if the earlier copy from the next slot is
// still running. Thread-safe.
class StagingRing {
 public:
  static constexpr size_t kSlots = 64, kSlotBytes = 256, kBytes = kSlots * kSlotBytes;

  struct Driver {
    // Starts a copy from a slot, `from`, to device memory.
    std::function<Status(void* to, const void* from, size_t bytes)> copy;
    // mark: records an event for `slot` in the stream, after the copies that were started. wait:
    // blocks until the event of `slot` has occurred.
    std::function<Status(size_t slot)> mark, wait;
  };

  // `memory` has kBytes bytes that the device can read directly. It must outlive the ring.
  StagingRing(std::byte* memory, Driver driver) : memory_(memory), driver_(std::move(driver)) {}

  static bool Takes(size_t bytes) { return bytes <= kSlotBytes; }
  // Starts a copy to device memory. `from` may change after the return. REQUIRES: Takes(bytes).
  Status Copy(void* to, const void* from, size_t bytes) TD_EXCLUDES(mu_);

 private:
  std::byte* const memory_;
  const Driver driver_;
  Mutex mu_;
  size_t next_ TD_GUARDED_BY(mu_) = 0;
  std::array<bool, kSlots> used_ TD_GUARDED_BY(mu_) = {};
};

}  // namespace tandem
