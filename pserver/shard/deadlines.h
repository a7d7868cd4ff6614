// Who sees to it that nobody waits in a shard beyond his deadline.
#pragma once

#include <algorithm>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem {

// OK, or INVALID_ARGUMENT for a call that may not wait.
inline Status CheckTimeout(uint64_t timeout_ms) {
  if (timeout_ms != 0) return OkStatus();
  return InvalidArgument(
      "timeout_ms is 0, expected at least 1 [TD4023]; hint: say how many milliseconds the server "
      "may wait");
}

// Thread-safe.
class Deadlines {
 public:
  // `clock`: the shard's; must outlive this.
  explicit Deadlines(const Clock& clock) : clock_(clock) {}
  virtual ~Deadlines() = default;
  const Clock& clock() const { return clock_; }
  // `timeout_ms` as a client says it, from now on: at most a day.
  Time After(uint64_t timeout_ms) const {
    constexpr uint64_t kMsMax = uint64_t{24} * 3600 * 1000;
    return clock_.Now() + std::chrono::milliseconds(std::clamp<uint64_t>(timeout_ms, 1, kMsMax));
  }
  // Somebody waits anew, until `deadline`.
  virtual void Poke(Time deadline) = 0;

 private:
  const Clock& clock_;
};

}  // namespace tandem
