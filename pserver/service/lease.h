// The lease of a call that freezes row buckets or pauses pushes: the time after which the effect of
// the call ends.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "common/base/clock.h"

namespace tandem::pserver {

// Returns the lease for a request of `ms` milliseconds: at most 60 s, and 2 s if `ms` is 0.
inline Duration LeaseOf(uint64_t ms) {
  constexpr uint64_t kDefaultMs = 2000, kMaxMs = 60'000;
  return std::chrono::milliseconds(std::min(ms == 0 ? kDefaultMs : ms, kMaxMs));
}

}  // namespace tandem::pserver
