// Sums values over about the last minute, in constant memory.
#pragma once

#include <array>
#include <cstdint>

#include "common/base/clock.h"

namespace tandem {

// The sum of the values of about the last minute. Not thread-safe. REQUIRES: times do not decrease.
class RecentSum {
 public:
  void Add(Time now, double amount) {
    Bin& bin = bins_[static_cast<size_t>(NumberOf(now) % kBins)];
    if (bin.number != NumberOf(now)) bin = {NumberOf(now), 0};
    bin.sum += amount;
  }
  // Returns the sum of the values of the last 55 to 60 s.
  double Sum(Time now) const {
    double sum = 0;
    for (const Bin& bin : bins_) sum += bin.number > NumberOf(now) - kBins ? bin.sum : 0;
    return sum;
  }

 private:
  static constexpr int64_t kBins = 12;
  struct Bin {
    int64_t number = 0;  // number of a period of 5 s, counted from the start of the clock
    double sum = 0;
  };
  static int64_t NumberOf(Time t) { return t.time_since_epoch() / std::chrono::seconds(5); }

  std::array<Bin, kBins> bins_;
};

}  // namespace tandem
