// When a call is made again: the same for whatever carries it.
#pragma once

#include <algorithm>
#include <optional>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem {

// One call, of which every attempt sends the same bytes: the request must be one that the server
// takes once only (a sequence number) or that does no harm twice.
class CallRetries {
 public:
  // 1 + `retries` attempts at most, all within `deadline`.
  CallRetries(int retries, Time deadline) : retries_(retries), deadline_(deadline) {}

  void Begin() { ++attempts_; }
  int attempts() const { return attempts_; }
  Time deadline() const { return deadline_; }
  // The pause before the next attempt, when this one ended with `code`; nullopt: it was the last.
  std::optional<Duration> Pause(StatusCode code, Time now) const {
    constexpr Duration kBackoffMax = std::chrono::seconds(1);
    const Duration backoff = std::min<Duration>(
        std::chrono::milliseconds(50) * (1 << std::min(attempts_ - 1, 5)), kBackoffMax);
    // A server that is being stopped cancels calls that just arrived.
    const bool gone = code == StatusCode::kUnavailable || code == StatusCode::kCancelled;
    if (!gone || attempts_ > retries_ || now + backoff >= deadline_) return std::nullopt;
    return backoff;
  }

 private:
  const int retries_;
  const Time deadline_;
  int attempts_ = 0;
};

}  // namespace tandem
