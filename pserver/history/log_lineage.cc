#include "pserver/history/log_lineage.h"

#include <algorithm>

#include "common/base/require.h"

namespace tandem::pserver {

LogLineage::LogLineage(std::span<const LogBreak> breaks, std::span<const StoreReader::State> states,
                       uint64_t last) {
  uint64_t end = last;
  for (size_t i = breaks.size(); i-- > 0;) {
    const LogBreak& at = breaks[i];
    // A restore that a later restore undid is before no entry of this history.
    if (at.number > end) continue;
    ranges_.emplace_back(at.number + 1, end);
    const auto restored = std::ranges::find_if(states, [&at](const StoreReader::State& s) {
      return s.number != 0 && s.number == at.snapshot && s.log_number <= at.number;
    });
    if (restored == states.end()) return;
    end = restored->log_number;
  }
  ranges_.emplace_back(1, end);
}

const LogLineage::Range* LogLineage::Find(uint64_t entry) const {
  const auto found = std::ranges::find_if(
      ranges_, [entry](const Range& r) { return r.first <= entry && entry <= r.second; });
  return found == ranges_.end() ? nullptr : &*found;
}

bool LogLineage::HasState(const StoreReader::State& state) const {
  return std::ranges::any_of(ranges_, [&state](const Range& r) {
    // A snapshot with the number of the last entry before a restore is older than the restore.
    const bool checkpoint = state.number == 0 || r.first == 1;
    return r.first <= state.log_number + (checkpoint ? 1 : 0) && state.log_number <= r.second;
  });
}

uint64_t LogLineage::ReplayFrom(uint64_t entry, std::span<const StoreReader::State> states,
                                uint64_t oldest) const {
  const Range* const range = Find(entry);
  TD_REQUIRE(range != nullptr);
  uint64_t from = std::max(range->first, oldest);
  for (const StoreReader::State& state : states) {
    // The state at the begin of a range after a restore is the restored one.
    const bool inside = range->first == 1 || state.log_number >= range->first;
    if (inside && state.log_number < entry) from = std::max(from, state.log_number + 1);
  }
  return from;
}

}  // namespace tandem::pserver
