// The checks of the rows of a table: each check decays the counts of the rows and removes rows
// (TableRules).
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace tandem::pserver {

// One check. It precedes the update from `version` to `version` + 1.
struct RowCheck {
  uint64_t version = 0;
  int64_t time_s = 0;  // event time in seconds of Unix time; 0: the rules count versions
  // Rows that had no gradient for more than age_max versions are removed.
  uint32_t age_max = std::numeric_limits<uint32_t>::max();
  float decay = 1;  // factor for the counts of the rows
  // true: no row was checked. The table got its first event time at this version.
  bool begin = false;
  friend bool operator==(const RowCheck&, const RowCheck&) = default;
};

// The checks of a table with rules in event time. Empty for other tables.
struct RowChecks {
  uint64_t made = 0;             // number of all entries, also of forgotten ones
  std::vector<RowCheck> recent;  // the last entries, in their order
  friend bool operator==(const RowChecks&, const RowChecks&) = default;
};

}  // namespace tandem::pserver
