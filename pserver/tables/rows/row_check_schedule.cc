#include "pserver/tables/rows/row_check_schedule.h"

#include <algorithm>
#include <utility>

#include "common/base/require.h"

namespace tandem::pserver {
namespace {

constexpr int64_t kMsPerSecond = 1000;

// Returns the difference of two versions. A version of a moved table may be below 0 and is then
// stored modulo 2^64.
int64_t Between(uint64_t from, uint64_t to) { return static_cast<int64_t>(to - from); }

// Returns `factor` to the power of `n`, with the same bits on each machine.
float Power(double factor, int64_t n) {
  TD_REQUIRE(n >= 0);
  double power = 1;
  for (; n > 0; n /= 2, factor *= factor) {
    if (n % 2 != 0) power *= factor;
  }
  return static_cast<float>(power);
}

RowCheck CheckOfVersion(const TableRules& rules, uint64_t version) {
  RowCheck check{.version = version, .decay = static_cast<float>(rules.decay)};
  if (rules.ttl > 0) check.age_max = static_cast<uint32_t>(rules.ttl);
  return check;
}

}  // namespace

std::optional<RowCheck> RowCheckSchedule::Next(uint64_t version, int64_t event_time_ms) {
  TD_REQUIRE(event_time_ms >= 0);
  if (!rules_.uses_event_time()) {
    const auto every = static_cast<uint64_t>(rules_.shrink_every);
    if (every == 0 || version == 0 || version % every != 0) return std::nullopt;
    return CheckOfVersion(rules_, version);
  }
  if (event_time_ms == 0) return std::nullopt;
  RowCheck check{.version = version, .time_s = event_time_ms / kMsPerSecond};
  if (checks_.recent.empty()) {
    check.begin = true;
    Remember(check);
    return std::nullopt;
  }
  const int64_t periods = PeriodOf(check.time_s) - PeriodOf(checks_.recent.back().time_s);
  if (periods <= 0) return std::nullopt;
  check.decay = Power(rules_.decay, periods);
  if (rules_.ttl_s > 0) {
    // The gradients before the check `old` had event times up to old.time_s. So the rows without a
    // gradient since that check had none for ttl_s seconds.
    const auto after = std::ranges::upper_bound(checks_.recent, check.time_s - rules_.ttl_s, {},
                                                &RowCheck::time_s);
    if (after != checks_.recent.begin()) {
      check.age_max = static_cast<uint32_t>(version - std::prev(after)->version);
    }
  }
  Remember(check);
  return check;
}

void RowCheckSchedule::Remember(const RowCheck& check) {
  ++checks_.made;
  checks_.recent.push_back(check);
  if (checks_.recent.size() > kRecentMax) checks_.recent.erase(checks_.recent.begin());
}

bool RowCheckSchedule::Reaches(uint64_t version) const {
  const std::vector<RowCheck>& recent = checks_.recent;
  return checks_.made == recent.size() ||
         (!recent.empty() && Between(recent.front().version, version) > 0);
}

RowChecks ToVersions(RowChecks checks, uint64_t from, uint64_t to) {
  for (RowCheck& check : checks.recent) check.version += to - from;
  return checks;
}

uint32_t RowCheckSchedule::AgeOfMoved(uint32_t age, uint64_t their_version, const RowChecks& theirs,
                                      uint64_t version) const {
  if (!rules_.uses_event_time() || theirs.recent.empty()) return age;
  // The first check on the other server after the last gradient of the row, and the first check on
  // this server in the same period or later. If the other server had no such check, its next check
  // will be in a later period than its last check.
  const uint64_t last = their_version - age;
  const auto check =
      std::partition_point(theirs.recent.begin(), theirs.recent.end(),
                           [&](const RowCheck& c) { return Between(last, c.version) <= 0; });
  const int64_t period = check != theirs.recent.end() ? PeriodOf(check->time_s)
                                                      : PeriodOf(theirs.recent.back().time_s) + 1;
  const auto own =
      std::partition_point(checks_.recent.begin(), checks_.recent.end(),
                           [&](const RowCheck& c) { return PeriodOf(c.time_s) < period; });
  // The last gradient is before `own` and not before the check that precedes `own`.
  auto age_min = int64_t{0};
  auto age_max = int64_t{std::numeric_limits<uint32_t>::max()};
  if (own != checks_.recent.end()) age_min = Between(own->version, version) + 1;
  if (own != checks_.recent.begin()) age_max = Between(std::prev(own)->version, version);
  return static_cast<uint32_t>(std::clamp(int64_t{age}, age_min, std::max(age_min, age_max)));
}

std::vector<RowCheck> ChecksBetween(const TableRules& rules, uint64_t base, uint64_t version) {
  TD_REQUIRE(!rules.uses_event_time() && base <= version);
  std::vector<RowCheck> checks;
  const auto every = static_cast<uint64_t>(rules.shrink_every);
  if (every == 0) return checks;
  // An update runs the rules with the version before the update (SparseTable::Begin).
  for (uint64_t at = (base + every - 1) / every * every; at < version; at += every) {
    if (at > 0) checks.push_back(CheckOfVersion(rules, at));
  }
  return checks;
}

}  // namespace tandem::pserver
