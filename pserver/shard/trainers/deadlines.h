// Deadlines of the calls that wait in a shard.
#pragma once

#include <algorithm>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem::pserver {

// INVALID_ARGUMENT: `timeout_ms` is 0, so the call has no time limit.
inline Status CheckTimeout(uint64_t timeout_ms) {
  if (timeout_ms != 0) return OkStatus();
  return InvalidArgument(
      "timeout_ms is 0, expected at least 1 [TD4023]; hint: set the time for which the server may "
      "wait, in milliseconds");
}

// Ends waiting calls at their deadlines. Thread-safe.
class Deadlines {
 public:
  // `clock`: the shard's clock; must outlive this object.
  explicit Deadlines(const Clock& clock) : clock_(clock) {}
  virtual ~Deadlines() = default;
  const Clock& clock() const { return clock_; }
  // Returns the deadline of a call whose client waits `timeout_ms`. The deadline is at most a day
  // from now.
  Time After(uint64_t timeout_ms) const {
    constexpr uint64_t kMsMax = uint64_t{24} * 3600 * 1000;
    return clock_.Now() + std::chrono::milliseconds(std::clamp<uint64_t>(timeout_ms, 1, kMsMax));
  }
  // Reports that a new call waits until `deadline`.
  virtual void Poke(Time deadline) = 0;

 private:
  const Clock& clock_;
};

}  // namespace tandem::pserver
