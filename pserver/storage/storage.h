// Stores the checkpoints and the WAL of a shard. Tests and the simulator implement this interface
// with a store that loses data or fails.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "pserver/disk/checkpoint_throttle.h"
#include "pserver/state/global_snapshot.h"
#include "pserver/state/shard_snapshot.h"
#include "pserver/state/wal.h"
#include "pserver/storage/checkpoint_files.h"
#include "pserver/storage/snapshot_chunks.h"

namespace tandem::pserver {

// A store for one shard. Thread-safe.
class Storage {
 public:
  virtual ~Storage() = default;
  // Replaces the checkpoint atomically: after a crash, the store has either the complete old or the
  // complete new checkpoint. After OK, the new checkpoint is durable. Returns the written bytes. A
  // delta (ShardSnapshot::base) replaces an earlier delta, but not the full snapshot that is its
  // base.
  // RESOURCE_EXHAUSTED: there is too little free space; nothing changed. FAILED_PRECONDITION: the
  // base of the delta does not exist.
  virtual StatusOr<size_t> Write(const ShardSnapshot& snapshot) = 0;
  // Passes the checkpoint to `sink` as a full snapshot. Returns false, and passes nothing, if there
  // is no checkpoint. DATA_LOSS: the checkpoint is damaged, or older than the last acknowledged
  // checkpoint. The caller must then not use the chunks that `sink` received.
  virtual StatusOr<bool> Read(SnapshotSink& sink) = 0;
  // Returns the checkpoint as a full snapshot in memory; nullopt: there is none.
  StatusOr<std::optional<ShardSnapshot>> Read();

  // ---- Global snapshots -------------------------------------------------------------------------
  // Writes a full snapshot as global snapshot `number`, durably like Write, and returns the written
  // bytes. The checkpoint stays. Removes all global snapshots with a number below `complete`.
  virtual StatusOr<size_t> WriteGlobalSnapshot(uint64_t number, const ShardSnapshot& snapshot,
                                               uint64_t complete) = 0;
  // Passes global snapshot `number` to `sink`. NOT_FOUND: there is no such snapshot. DATA_LOSS: as
  // in Read.
  virtual Status ReadGlobalSnapshot(uint64_t number, SnapshotSink& sink) = 0;
  StatusOr<ShardSnapshot> ReadGlobalSnapshot(uint64_t number);
  // Returns the stored snapshots by ascending numbers.
  virtual StatusOr<std::vector<StoredGlobalSnapshot>> GlobalSnapshots() = 0;

  // ---- WAL: changes since the checkpoint --------------------------------------------------------
  // Adds entries in one write and returns the written bytes. After OK, the entries survive the
  // death of the process and, with `sync`, of the machine. A later call of Write removes the
  // entries that its snapshot contains. RESOURCE_EXHAUSTED: there is too little free space; nothing
  // changed.
  virtual StatusOr<size_t> AppendLog(std::span<const LogEntry> entries, bool sync) = 0;
  // Checks the free space for entries of `bytes` bytes. CheckRoom requires more free space than
  // AppendLog, so that entries that pass the check can be appended a little later.
  // RESOURCE_EXHAUSTED: there is no room (the message names the directory, the free and the needed
  // bytes).
  virtual Status CheckRoom(uint64_t bytes) = 0;
  // Syncs all entries that were added before.
  virtual Status SyncLog() = 0;
  // Calls `take` for every entry whose number is above `after`, by ascending numbers. DATA_LOSS: an
  // entry is missing or damaged.
  virtual Status ReadLog(uint64_t after, const std::function<Status(LogEntry)>& take) = 0;
  virtual Status ClearLog() = 0;

  // Returns the part that replication needs, which lives as long as the store; null: the store has
  // no files.
  virtual CheckpointFiles* files() { return nullptr; }
};

}  // namespace tandem::pserver
