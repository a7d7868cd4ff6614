#include "pserver/replication/write_times.h"

#include <algorithm>

#include "common/base/require.h"

namespace tandem::pserver {
namespace {

constexpr Duration kSpacing = std::chrono::milliseconds(100);  // minimum time between two marks
constexpr size_t kMarksMax = 1000;

}  // namespace

void WriteTimes::Begin(uint64_t last, Time now) { marks_.assign(1, {last + 1, now}); }

void WriteTimes::Add(uint64_t first, Time now) {
  TD_REQUIRE(first >= marks_.back().first);
  if (now - marks_.back().time < kSpacing) return;
  if (marks_.size() == kMarksMax) marks_.erase(marks_.begin() + 1);
  marks_.push_back({first, now});
}

Time WriteTimes::Earliest(uint64_t number) const {
  const auto later = std::ranges::upper_bound(marks_, number, {}, &Mark::first);
  return later == marks_.begin() ? marks_.front().time : std::prev(later)->time;
}

}  // namespace tandem::pserver
