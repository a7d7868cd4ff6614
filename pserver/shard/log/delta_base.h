// Tracks the newest checkpoint of a shard on the disk, and its base: the full snapshot on which
// delta snapshots build. The base is the newest full snapshot that is on the disk and belongs to
// the current history of the shard. A delta has the changes of tables since the base.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "common/base/mutex.h"
#include "pserver/state/shard_snapshot.h"

namespace tandem::pserver {

// Thread-safe, because one thread makes a snapshot and another writes it. Acquires no other lock.
class DeltaBase {
 public:
  // Version of the base; nullopt: there is no base, so no delta can be made.
  std::optional<uint64_t> version() const;
  // Log number of the last change in the newest checkpoint.
  uint64_t stored_number() const { return stored_number_; }
  // Returns ShardSnapshot::order for a snapshot that is made now.
  uint64_t NextOrder();
  // Returns whether the next checkpoint is a delta: there is a base, and fewer than `deltas_max`
  // deltas followed it. If so, counts the delta.
  bool TakesDelta(int deltas_max);

  // Reports that the snapshot is on the disk. A full snapshot becomes the base, unless Forget was
  // called after the snapshot was made.
  void OnStored(const ShardSnapshot& snapshot);
  // Reports that the shard was restored from `snapshot`, which cannot become the base.
  void OnRestored(const ShardSnapshot& snapshot);
  // Reports that the restored snapshot is on the disk. Later deltas build on the full snapshot that
  // this snapshot names (ShardSnapshot::whole).
  void Resume(const ShardSnapshot& snapshot);
  // Drops the base, because deltas cannot represent the latest changes. No snapshot made before
  // this call may become the base.
  void Forget();

 private:
  std::atomic<uint64_t> stored_number_ = 0;
  mutable Mutex mu_;
  std::optional<uint64_t> version_ TD_GUARDED_BY(mu_);
  uint64_t made_ TD_GUARDED_BY(mu_) = 0;  // number of snapshots made
  // Snapshots with a lower `order` are of another history.
  uint64_t order_min_ TD_GUARDED_BY(mu_) = 0;
  int deltas_ TD_GUARDED_BY(mu_) = 0;  // number of deltas since the base
};

}  // namespace tandem::pserver
