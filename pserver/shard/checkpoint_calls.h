// Calls to a shard about its state as a whole, for the owner that stores it: snapshots, restart,
// replay of the log.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pserver/shard/shard.h"
#include "pserver/shard/snapshot_loader.h"

namespace tandem::pserver {

// Thread-safe, as the shard.
class Shard::Checkpoints {
 public:
  explicit Checkpoints(Shard& shard) : shard_(shard) {}

  // Returns the state between two updates. Other calls continue meanwhile; they wait for one slice,
  // or for some row buckets, at a time. FAILED_PRECONDITION: not initialised. ABORTED: a Restore
  // happened meanwhile. `delta`: for tables, only changes since the last stored full snapshot;
  // FAILED_PRECONDITION: there is none.
  StatusOr<ShardSnapshot> Take(bool delta = false);
  // Returns the function that copies the values of a begun snapshot, in chunks, each under the
  // lock.
  SnapshotFn CopyOf(Snapshotter::Copy copy);
  // The snapshot is on the disk. Deltas build on a full one.
  void OnStored(const ShardSnapshot& snapshot) { shard_.base_.OnStored(snapshot); }
  // The restored snapshot is the one on the disk. Deltas may follow it, because the ages of rows
  // tell which rows changed since.
  void Resume(const ShardSnapshot& snapshot) { shard_.base_.Resume(snapshot); }

  // Replaces the whole state by the snapshot that `read` sends; returns it without values. The old
  // state is served until the snapshot is complete. Waiting calls receive ABORTED. On an error,
  // nothing changes.
  StatusOr<ShardSnapshot> Restore(const SnapshotReader& read);
  Status Restore(const ShardSnapshot& snapshot);
  // Re-applies a change after the last restored snapshot; before any other call. DATA_LOSS: it does
  // not fit. A push without values (OrderRecord) waits for them, and so do all entries
  // after it. Until then, trainers are told to retransmit their kept pushes (DATA_LOSS), or to wait
  // for other trainers (UNAVAILABLE).
  Status Replay(LogEntry entry);
  size_t missing_pushes() const;  // pushes of the log whose values are missing

  // Log numbers: last entry in the checkpoint, and last entry applied to the parameters.
  uint64_t stored_number() const { return shard_.base_.stored_number(); }
  uint64_t settled_number() const;

 private:
  StatusOr<ShardSnapshot> Finish(Snapshotter::Copy& copy);
  void Abandon(const Snapshotter::Copy& copy);
  Status Replace(SnapshotLoader& loader);

  Shard& shard_;
};

}  // namespace tandem::pserver
