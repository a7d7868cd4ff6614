// Small pieces of host memory on their way to a device, which fetches them when its stream comes to
// them: what changes from step to step, such as a learning rate, is brought without waiting.
#pragma once

#include <array>
#include <cstddef>
#include <functional>

#include "common/base/mutex.h"
#include "common/base/status.h"

namespace tandem {

// Slots that are used in turn; one whose copy is still under way is waited for. Thread-safe.
class StagingRing {
 public:
  static constexpr size_t kSlots = 64, kSlotBytes = 256, kBytes = kSlots * kSlotBytes;

  struct Driver {
    // Starts a copy from a slot to the device.
    std::function<Status(void* to, const void* from, size_t bytes)> copy;
    // Notes the place in the stream behind the copies that were started, by slot; waits for it.
    std::function<Status(size_t slot)> mark, wait;
  };

  // `memory`: kBytes that the device reads by itself; it must outlive this.
  StagingRing(std::byte* memory, Driver driver) : memory_(memory), driver_(std::move(driver)) {}

  static bool Takes(size_t bytes) { return bytes <= kSlotBytes; }
  // `from` may change as soon as this returns. REQUIRES: Takes(bytes).
  Status Copy(void* to, const void* from, size_t bytes) TD_EXCLUDES(mu_);

 private:
  std::byte* const memory_;
  const Driver driver_;
  Mutex mu_;
  size_t next_ TD_GUARDED_BY(mu_) = 0;
  std::array<bool, kSlots> used_ TD_GUARDED_BY(mu_) = {};
};

}  // namespace tandem
