// Calls that concern the whole state of a shard, for the owner that stores it: snapshots, restart,
// replay of the log.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pserver/shard/shard.h"
#include "pserver/shard/snapshot_loader.h"

namespace tandem::pserver {

// Thread-safe, like Shard.
class Shard::Checkpoints {
 public:
  explicit Checkpoints(Shard& shard) : shard_(shard) {}

  // Returns the state between two updates. Other calls continue during the copy. They wait at most
  // until one slice or a few row buckets are copied. FAILED_PRECONDITION: the shard has no initial
  // values. ABORTED: the state was restored during the copy. `delta`: only the changes of tables
  // since the last stored full snapshot; FAILED_PRECONDITION: there is no full snapshot.
  StatusOr<ShardSnapshot> Take(bool delta = false);
  // Returns the function that copies the values of a begun snapshot in chunks, and holds the lock
  // during each chunk.
  SnapshotFn CopyOf(Snapshotter::Copy copy);
  // Reports that the snapshot is on the disk. If the snapshot is full, later deltas build on it.
  void OnStored(const ShardSnapshot& snapshot) { shard_.base_.OnStored(snapshot); }
  // Reports that the restored snapshot is the one on the disk. Deltas may build on this snapshot,
  // because the ages of rows show which rows changed after it.
  void Resume(const ShardSnapshot& snapshot) { shard_.base_.Resume(snapshot); }

  // Replaces the whole state by the snapshot that `read` sends. Returns the snapshot without
  // values. The shard serves the old state until the snapshot is complete. Waiting calls receive
  // ABORTED. On an error, nothing changes.
  StatusOr<ShardSnapshot> Restore(const SnapshotReader& read);
  Status Restore(const ShardSnapshot& snapshot);
  // Applies a log entry that follows the restored snapshot. Call Replay before any other call.
  // DATA_LOSS: the change does not match the state. A push without values (OrderRecord) waits for
  // its values, and all entries after it wait too. Until then, trainers receive DATA_LOSS if they
  // must retransmit their kept pushes, and UNAVAILABLE if they must wait for other trainers.
  Status Replay(LogEntry entry);
  size_t missing_pushes() const;  // number of logged pushes whose values are missing

  // Log numbers. stored_number: last entry in the checkpoint. settled_number: last entry that is
  // applied to the parameters.
  uint64_t stored_number() const { return shard_.base_.stored_number(); }
  uint64_t settled_number() const;

 private:
  StatusOr<ShardSnapshot> Finish(Snapshotter::Copy& copy);
  void Abandon(const Snapshotter::Copy& copy);
  Status Replace(SnapshotLoader& loader);

  Shard& shard_;
};

}  // namespace tandem::pserver
