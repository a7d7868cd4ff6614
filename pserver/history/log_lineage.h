// Says which entries of a log are changes of the newest state, and which ones a restore undid.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "pserver/rocksdb/store_reader.h"
#include "pserver/storage/scanned_entry.h"

namespace tandem::pserver {

// The entries of one log. After a restore from a stored state, the entries up to this state belong
// to the newest state, and the entries between this state and the restore do not. If the restored
// state is no longer stored, no entry before the restore counts.
class LogLineage {
 public:
  // `breaks`: by ascending numbers. `last`: number of the last entry of the log.
  LogLineage(std::span<const LogBreak> breaks, std::span<const StoreReader::State> states,
             uint64_t last);

  bool Has(uint64_t entry) const { return Find(entry) != nullptr; }
  // Returns the number of the entry from which a replay reaches the state before `entry` with the
  // fewest entries. A stored state or a restore is before it. `oldest`: the first entry of the log.
  uint64_t ReplayFrom(uint64_t entry, std::span<const StoreReader::State> states,
                      uint64_t oldest) const;
  // Number of the last entry before the newest restored state; 0: there was no restore.
  uint64_t last_break() const { return ranges_.front().first - 1; }
  // Returns whether a state is one of this history.
  bool HasState(const StoreReader::State& state) const;

 private:
  using Range = std::pair<uint64_t, uint64_t>;  // first and last entry; empty: first > last
  const Range* Find(uint64_t entry) const;

  std::vector<Range> ranges_;  // the newest first
};

}  // namespace tandem::pserver
