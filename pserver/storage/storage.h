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
#include "pserver/storage/scanned_entry.h"
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
  // Writes a full snapshot as global snapshot `name`, durably like Write, and returns the written
  // bytes. The checkpoint stays. Removes the global snapshots with the numbers `removed`: at the
  // same moment or, if there is too little free space, before the write.
  virtual StatusOr<size_t> WriteGlobalSnapshot(const SnapshotName& name,
                                               const ShardSnapshot& snapshot,
                                               std::span<const uint64_t> removed) = 0;
  // Passes global snapshot `number` to `sink`. NOT_FOUND: there is no such snapshot. DATA_LOSS: as
  // in Read.
  virtual Status ReadGlobalSnapshot(uint64_t number, SnapshotSink& sink) = 0;
  StatusOr<ShardSnapshot> ReadGlobalSnapshot(uint64_t number);
  // Returns the stored snapshots by ascending numbers.
  virtual StatusOr<std::vector<StoredGlobalSnapshot>> GlobalSnapshots() = 0;
  // Returns the highest known number of a snapshot, also of removed ones and of those that only
  // another server has whose checkpoint was installed; 0: none.
  virtual StatusOr<uint64_t> LastSnapshotNumber();

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
  // Records durably that another state is restored after entry LogBreak::number, so that later
  // entries are no changes of the state before. Until the next Write, which must have the restored
  // state, UnfinishedRestore returns `at`, and WriteGlobalSnapshot removes no LogBreak::snapshot.
  // Waits for no other operation of the store but the last step of WriteGlobalSnapshot. NOT_FOUND:
  // the snapshot does not exist; nothing changed.
  virtual Status BeginRestore(const LogBreak& /*at*/) { return OkStatus(); }
  // Returns the restore whose state Write has not stored yet. The state of the store is then the
  // restored one with the entries after LogBreak::number.
  virtual StatusOr<std::optional<LogBreak>> UnfinishedRestore() {
    return std::optional<LogBreak>();
  }
  // Returns the last restore that was recorded and whose entries are in the log.
  virtual StatusOr<LogBreak> LastBreak() { return LogBreak(); }
  // Calls `take` for the entries with the number `first` or a later one, also for those that the
  // checkpoint contains and that the log still has, by ascending numbers. The log may begin later
  // than `first`. Returns the first error of `take`. DATA_LOSS: as in ReadLog.
  virtual Status ScanLog(uint64_t /*first*/, const ScanSink& /*take*/) { return OkStatus(); }

  // Returns the part that replication needs, which lives as long as the store; null: the store has
  // no files.
  virtual CheckpointFiles* files() { return nullptr; }
};

}  // namespace tandem::pserver
