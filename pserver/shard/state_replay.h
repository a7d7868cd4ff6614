// Applies the entries of a log to a stored state, beside the state that a server serves.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/metrics.h"
#include "common/base/status.h"
#include "pserver/shard/read_calls.h"
#include "pserver/shard/shard.h"
#include "pserver/shard/snapshot_loader.h"
#include "pserver/state/shard_snapshot.h"
#include "pserver/state/wal.h"

namespace tandem::pserver {

// A shard in memory that only replays. All rows of tables are in memory. Not thread-safe.
class StateReplay {
 public:
  // `server`: index of the server whose log is replayed. `backend` and `device` must outlive this
  // object.
  StateReplay(int server, const exec::Backend& backend, Device& device);

  // Loads the stored state. `log_number`: number of the last entry before the first call of Add,
  // which after a restore is higher than that of the state. Called once, before Add.
  Status Begin(const SnapshotReader& read, uint64_t log_number);
  // Applies the entry that follows the state or the last entry. DATA_LOSS: it does not match the
  // state. FAILED_PRECONDITION: the entry has no values, because the log has durability replayable.
  Status Add(LogEntry entry);
  uint64_t version() { return shard_.reads().version(); }
  // Number of the last entry whose change is in the parameters.
  uint64_t settled_number();
  // Returns the values of a row, which are its initial values if the row does not exist.
  StatusOr<std::vector<float>> Row(const std::string& table, uint64_t id);
  // Configuration in the loaded state.
  ShardConfig config() const { return shard_.Info().config; }
  // The following functions return the values that exist now, with their optimizer state.
  StatusOr<std::vector<SliceSpec>> Slices() { return shard_.reads().Slices(); }
  StatusOr<SliceSnapshot> Slice(const std::string& variable, int64_t offset) {
    return shard_.reads().ReadSlice(variable, offset);
  }
  StatusOr<TablePage> Rows(const std::string& table, std::span<const uint64_t> ids) {
    return shard_.reads().ReadRows(table, ids);
  }
  // Returns the rows of some whole row buckets from `bucket` on; TablePage::next_bucket follows
  // them, and is kRowBuckets at the end.
  StatusOr<TablePage> Page(const std::string& table, int bucket);
  StatusOr<std::vector<std::pair<std::string, float>>> Scalars(const std::string& table) {
    return shard_.reads().ReadScalars(table);
  }
  // Returns a copy of the state.
  StatusOr<ShardSnapshot> Snapshot();

 private:
  RealClock clock_;
  Metrics metrics_;
  Shard shard_;
};

}  // namespace tandem::pserver
