// Decides when the rows of a table are checked, and which rows a check removes
// (TableRules::shrink_every, TableRules::shrink_every_s).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/tables/table_rules.h"
#include "pserver/state/row_checks.h"

namespace tandem::pserver {

// The schedule of one table. Rules in versions need no state. For rules in event time, the schedule
// remembers the versions and event times of the last checks. A row stores only the version of its
// last gradient. The next check after this gradient gives an upper bound of its event time. Not
// thread-safe.
class RowCheckSchedule {
 public:
  // Maximum number of remembered checks. It exceeds the number that TableRules::ttl_s needs.
  static constexpr size_t kRecentMax = 16'384;

  explicit RowCheckSchedule(const TableRules& rules) : rules_(rules) {}

  // Returns the check that precedes the update from `version` to `version` + 1; nullopt: there is
  // none. `event_time_ms`: the highest event time of the applied pushes, this update included; 0:
  // unknown. The caller calls Next once for each version.
  std::optional<RowCheck> Next(uint64_t version, int64_t event_time_ms);

  // The checks made so far; empty if the rules count versions.
  const RowChecks& checks() const { return checks_; }
  // Sets the checks made so far. Their versions are versions of this server.
  void Set(RowChecks checks) { checks_ = std::move(checks); }
  // Returns true only if the schedule remembers all checks from `version` on.
  bool Reaches(uint64_t version) const;

  // Returns the age at `version` on this server of a row that another server has moved here. `age`:
  // age of the row at `their_version` on the other server, whose checks are `theirs`. The servers
  // count their versions separately (a_sync). The row keeps the period of its last gradient. If
  // this server has not reached that period, the row counts as one of its newest period. Returns
  // `age` if the rules of this table count versions.
  uint32_t AgeOfMoved(uint32_t age, uint64_t their_version, const RowChecks& theirs,
                      uint64_t version) const;

 private:
  int64_t PeriodOf(int64_t time_s) const { return time_s / rules_.shrink_every_s; }
  void Remember(const RowCheck& check);

  const TableRules rules_;
  RowChecks checks_;
};

// Returns `checks` of a server at version `from` as checks of another server at version `to`.
RowChecks ToVersions(RowChecks checks, uint64_t from, uint64_t to);

// Returns the checks of the updates from version `base` to version `version`, of a table whose
// rules count versions.
std::vector<RowCheck> ChecksBetween(const TableRules& rules, uint64_t base, uint64_t version);

}  // namespace tandem::pserver
