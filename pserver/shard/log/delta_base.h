// Tracks the newest checkpoint of a shard on the disk, and the base: the full snapshot to which
// delta snapshots add changes. The base is the newest full snapshot that is on the disk and belongs
// to the current history of the shard. A delta has the changes of tables since the base.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "common/base/mutex.h"
#include "pserver/state/shard_snapshot.h"

namespace tandem::pserver {

// Thread-safe, because one thread makes a snapshot and another thread writes it. Acquires no other
// lock.
class DeltaBase {
 public:
  // Version of the base; nullopt: there is no base, so no delta can be made.
  std::optional<uint64_t> version() const;
  // Log number of the last change in the newest checkpoint on the disk.
  uint64_t stored_number() const { return stored_number_; }
  // Returns the value of ShardSnapshot::order for a new snapshot.
  uint64_t NextOrder();
  // Returns whether the next checkpoint is a delta: a base exists, and fewer than `deltas_max`
  // deltas were made since the base. If the result is true, counts the delta.
  bool TakesDelta(int deltas_max);

  // Reports that the snapshot is on the disk. A full snapshot becomes the base, unless Forget was
  // called after the snapshot was made.
  void OnStored(const ShardSnapshot& snapshot);
  // Reports that the shard was restored from `snapshot`. Drops the base; `snapshot` does not become
  // the base.
  void OnRestored(const ShardSnapshot& snapshot);
  // Reports that the restored snapshot is also on the disk. The full snapshot of version
  // ShardSnapshot::whole becomes the base.
  void Resume(const ShardSnapshot& snapshot);
  // Drops the base, because deltas cannot represent the newest changes. A snapshot that was made
  // before this call cannot become the base.
  void Forget();

 private:
  std::atomic<uint64_t> stored_number_ = 0;
  mutable Mutex mu_;
  std::optional<uint64_t> version_ TD_GUARDED_BY(mu_);
  uint64_t made_ TD_GUARDED_BY(mu_) = 0;  // number of snapshots made
  // A snapshot with a lower `order` belongs to an earlier history and cannot become the base.
  uint64_t order_min_ TD_GUARDED_BY(mu_) = 0;
  int deltas_ TD_GUARDED_BY(mu_) = 0;  // number of deltas since the base
};

}  // namespace tandem::pserver
