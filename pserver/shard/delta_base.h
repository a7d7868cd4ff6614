// Tracks the newest checkpoint of a shard on the disk, and the full snapshot on which delta
// snapshots build. The base is the newest full snapshot that is on the disk and of the same
// history, because a delta contains the changes of tables since then.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "common/base/mutex.h"
#include "pserver/state/shard_snapshot.h"

namespace tandem::pserver {

// Thread-safe: snapshots are written on other threads than those that make them. Takes no other
// lock.
class DeltaBase {
 public:
  // Version of the base; nullopt: there is none, and no delta can be made.
  std::optional<uint64_t> version() const;
  // Log number of the last change in the newest checkpoint.
  uint64_t stored_number() const { return stored_number_; }
  // Returns ShardSnapshot::order of a snapshot that is made now.
  uint64_t NextOrder();
  // Whether the next checkpoint is a delta: there is a base, and fewer than `deltas_max` deltas
  // were taken since. Counts the delta.
  bool TakesDelta(int deltas_max);

  // The snapshot is on the disk. A full one becomes the base, unless Forget was called after it was
  // made.
  void OnStored(const ShardSnapshot& snapshot);
  // The shard was restored from `snapshot`. It is no base.
  void OnRestored(const ShardSnapshot& snapshot);
  // The restored snapshot is on the disk: its base becomes the base.
  void Resume(const ShardSnapshot& snapshot);
  // Deltas cannot represent recent changes: no snapshot made before now may become the base.
  void Forget();

 private:
  std::atomic<uint64_t> stored_number_ = 0;
  mutable Mutex mu_;
  std::optional<uint64_t> version_ TD_GUARDED_BY(mu_);
  uint64_t made_ TD_GUARDED_BY(mu_) = 0;       // snapshots
  uint64_t order_min_ TD_GUARDED_BY(mu_) = 0;  // older snapshots are of another history
  int deltas_ TD_GUARDED_BY(mu_) = 0;          // taken since the base
};

}  // namespace tandem::pserver
