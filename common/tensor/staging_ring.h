// A ring of small staging buffers in host memory. The device fetches a value when its stream
// reaches the copy. So values that change from training step to training step, such as a learning
// rate, are copied without waiting.
#pragma once

#include <array>
#include <cstddef>
#include <functional>

#include "common/base/mutex.h"
#include "common/base/status.h"

namespace tandem {

// Uses its slots in turn, and waits if the copy from a slot is still running. Thread-safe.
class StagingRing {
 public:
  static constexpr size_t kSlots = 64, kSlotBytes = 256, kBytes = kSlots * kSlotBytes;

  struct Driver {
    // Starts a copy from a slot to the device.
    std::function<Status(void* to, const void* from, size_t bytes)> copy;
    // mark: records an event in the stream after the copies that were started, for `slot`. wait:
    // waits for the event of `slot`.
    std::function<Status(size_t slot)> mark, wait;
  };

  // `memory`: kBytes that the device can read directly. It must outlive this.
  StagingRing(std::byte* memory, Driver driver) : memory_(memory), driver_(std::move(driver)) {}

  static bool Takes(size_t bytes) { return bytes <= kSlotBytes; }
  // `from` may change after the return. REQUIRES: Takes(bytes).
  Status Copy(void* to, const void* from, size_t bytes) TD_EXCLUDES(mu_);

 private:
  std::byte* const memory_;
  const Driver driver_;
  Mutex mu_;
  size_t next_ TD_GUARDED_BY(mu_) = 0;
  std::array<bool, kSlots> used_ TD_GUARDED_BY(mu_) = {};
};

}  // namespace tandem
