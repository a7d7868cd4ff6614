// The retry policy of calls, the same for every transport.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "common/base/status.h"

namespace tandem::ps {

// Counts the attempts of one call. All attempts send the same bytes, so the request must be
// idempotent or have a sequence number that the server accepts only once.
class CallRetries {
 public:
  // Allows at most 1 + `retries` attempts before `deadline`. `stream`: a stream of random numbers
  // for the pauses. Clients with different streams pause for different times, so that they do not
  // all call a restarted server at once.
  CallRetries(int retries, Time deadline, uint64_t stream)
      : retries_(retries), deadline_(deadline), stream_(stream) {}

  void Begin() { ++attempts_; }
  int attempts() const { return attempts_; }
  Time deadline() const { return deadline_; }
  // Returns the pause before the next attempt, after an attempt that ended with `code`; nullopt: no
  // further attempt is allowed.
  std::optional<Duration> Pause(StatusCode code, Time now) const {
    constexpr Duration kBackoffMax = std::chrono::seconds(1);
    const Duration most = std::min<Duration>(
        std::chrono::milliseconds(50) * (1 << std::min(attempts_ - 1, 5)), kBackoffMax);
    const double share = 0.5 + 0.5 * UniformAt(stream_, static_cast<uint64_t>(attempts_));
    const auto backoff = std::chrono::duration_cast<Duration>(most * share);
    if (code != StatusCode::kUnavailable || attempts_ > retries_ || now + backoff >= deadline_)
      return std::nullopt;
    return backoff;
  }

 private:
  const int retries_;
  const Time deadline_;
  const uint64_t stream_;
  int attempts_ = 0;
};

}  // namespace tandem::ps
