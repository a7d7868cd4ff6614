// When a call is made again: the same for whatever carries it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "common/base/status.h"

namespace tandem {

// One call, of which every attempt sends the same bytes: the request must be one that the server
// takes once only (a sequence number) or that does no harm twice.
class CallRetries {
 public:
  // 1 + `retries` attempts at most, all within `deadline`. `stream`: of random numbers; calls of
  // different streams pause for different times, so that the clients of a server that comes back do
  // not come all at once.
  CallRetries(int retries, Time deadline, uint64_t stream)
      : retries_(retries), deadline_(deadline), stream_(stream) {}

  void Begin() { ++attempts_; }
  int attempts() const { return attempts_; }
  Time deadline() const { return deadline_; }
  // The pause before the next attempt, when this one ended with `code`; nullopt: it was the last.
  std::optional<Duration> Pause(StatusCode code, Time now) const {
    constexpr Duration kBackoffMax = std::chrono::seconds(1);
    const Duration most = std::min<Duration>(
        std::chrono::milliseconds(50) * (1 << std::min(attempts_ - 1, 5)), kBackoffMax);
    const double share = 0.5 + 0.5 * UniformAt(stream_, static_cast<uint64_t>(attempts_));
    const auto backoff = std::chrono::duration_cast<Duration>(most * share);
    // A server that is being stopped cancels calls that just arrived.
    const bool gone = code == StatusCode::kUnavailable || code == StatusCode::kCancelled;
    if (!gone || attempts_ > retries_ || now + backoff >= deadline_) return std::nullopt;
    return backoff;
  }

 private:
  const int retries_;
  const Time deadline_;
  const uint64_t stream_;
  int attempts_ = 0;
};

}  // namespace tandem
