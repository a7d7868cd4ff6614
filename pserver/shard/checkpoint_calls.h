// Calls that concern the whole state of a shard: snapshots, restart, replay of the log. Only the
// owner that stores the state makes these calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "pserver/shard/shard.h"
#include "pserver/shard/snapshot_loader.h"

namespace tandem::pserver {

// Thread-safe, like Shard.
class Shard::Checkpoints {
 public:
  explicit Checkpoints(Shard& shard) : shard_(shard) {}

  // Returns a copy of the state between two updates. Other calls continue during the copy: they
  // wait at most until one slice or a few row buckets are copied. `delta`: the copy has only the
  // changes of tables since the last stored full snapshot. FAILED_PRECONDITION: the shard has no
  // initial values, or (with `delta`) there is no full snapshot. ABORTED: the state was restored
  // during the copy.
  StatusOr<ShardSnapshot> Take(bool delta = false);
  // Returns a function that copies the values of the begun snapshot in chunks. The function holds
  // the shard's lock during each chunk.
  SnapshotFn CopyOf(Snapshotter::Copy copy);
  // Reports that the snapshot is on the disk. If the snapshot is full, it becomes the base of later
  // deltas.
  void OnStored(const ShardSnapshot& snapshot) { shard_.base_.OnStored(snapshot); }
  // Reports that the restored snapshot is also the checkpoint on the disk. Deltas may have this
  // snapshot as base, because the ages of rows show which rows changed after it.
  void Resume(const ShardSnapshot& snapshot);

  // Replaces the whole state by the snapshot that `read` sends. Returns the snapshot without
  // values; its log_number is the number after which the changes of the new state begin. The shard
  // serves the old state until the snapshot is complete. Calls that wait then fail with ABORTED. On
  // an error, nothing changes. `record`: called right before the replacement, under the lock of the
  // shard, with the number of the last change of the old state; an error keeps the old state. null:
  // not called.
  using ReplaceRecorder = std::function<Status(uint64_t last)>;
  StatusOr<ShardSnapshot> Restore(const SnapshotReader& read,
                                  const ReplaceRecorder& record = nullptr);
  Status Restore(const ShardSnapshot& snapshot);
  // Applies the log entry that follows the restored snapshot or the last replayed entry. Replay
  // must be called before any call of a trainer; on a replica, observers may call meanwhile.
  // DATA_LOSS: the change does not match the state. A push without values (OrderRecord) waits for
  // its values, and all entries after the push wait too. Until then, a call of a trainer fails:
  // with DATA_LOSS if this trainer must retransmit its kept pushes, with UNAVAILABLE if it must
  // wait for other trainers.
  Status Replay(LogEntry entry);
  // Records that all trainers have just called, because until now they called another server, whose
  // log this shard has replayed.
  void HearAllTrainers();
  size_t missing_pushes() const;  // number of logged pushes whose values are missing

  // Log numbers. stored_number: last entry that the newest checkpoint contains. settled_number:
  // last entry that is applied to the parameters.
  uint64_t stored_number() const { return shard_.base_.stored_number(); }
  // Returns a number for ShardSnapshot::order between those of the snapshots made before and later.
  uint64_t NextOrder() { return shard_.base_.NextOrder(); }
  uint64_t settled_number() const;

 private:
  StatusOr<ShardSnapshot> Finish(Snapshotter::Copy& copy);
  void Abandon(const Snapshotter::Copy& copy);
  // Returns the number of the last change before the new state.
  StatusOr<uint64_t> Replace(SnapshotLoader& loader, const ReplaceRecorder& record);

  Shard& shard_;
};

}  // namespace tandem::pserver
