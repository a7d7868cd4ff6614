// A token bucket limits the rate of events: at most `burst` events at once, and `per_second` on
// average.
#pragma once

#include <algorithm>

#include "common/base/clock.h"

namespace tandem::rpc {

class TokenBucket {
 public:
  TokenBucket(double burst, double per_second)
      : burst_(burst), per_second_(per_second), tokens_(burst) {}

  // Takes `count` tokens. Returns false and takes no token if there are fewer than `count`.
  bool Take(Time now, double count = 1) {
    Refill(now);
    if (tokens_ < count) return false;
    tokens_ -= count;
    return true;
  }
  // Takes `count` tokens even if there are fewer. The bucket then has a debt, but the call does not
  // increase the debt above `debt_max` tokens.
  void Charge(double count, double debt_max) {
    tokens_ = std::max(tokens_ - count, std::min(tokens_, -debt_max));
  }
  void GiveBack(double count = 1) { tokens_ = std::min(burst_, tokens_ + count); }
  bool Full(Time now) const {
    return tokens_ + per_second_ * std::max(0.0, Seconds(now - filled_)) >= burst_;
  }

 private:
  void Refill(Time now) {
    if (filled_ != Time() && now > filled_) GiveBack(per_second_ * Seconds(now - filled_));
    filled_ = std::max(filled_, now);
  }

  double burst_, per_second_, tokens_;
  Time filled_;
};

}  // namespace tandem::rpc
