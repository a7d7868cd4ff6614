// Stores the checkpoints and the WAL of a shard. An interface, so that tests and the simulator can
// provide a store that loses data or fails.
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
#include "pserver/storage/snapshot_chunks.h"

namespace tandem::pserver {

// Thread-safe.
class Storage {
 public:
  virtual ~Storage() = default;
  // Replaces the checkpoint atomically: after a crash there is either the old or the new one,
  // complete. After OK it is the new one (synced). Returns the bytes written. RESOURCE_EXHAUSTED:
  // less free space than the limit; nothing changed. A delta (ShardSnapshot::base) replaces another
  // delta and keeps the full snapshot on which it builds. FAILED_PRECONDITION: that full snapshot
  // does not exist.
  virtual StatusOr<size_t> Write(const ShardSnapshot& snapshot) = 0;
  // Passes a full snapshot to `sink`. Returns false, and passes nothing, if there is none.
  // DATA_LOSS: it is damaged, or older than the last acknowledged one; the chunks passed so far
  // must not be used.
  virtual StatusOr<bool> Read(SnapshotSink& sink) = 0;
  // nullopt: there is none.
  StatusOr<std::optional<ShardSnapshot>> Read();

  // ---- Global snapshots -------------------------------------------------------------------------
  // Full snapshots by number, stored next to the checkpoint and written like it. Writing one drops
  // all with a number below `complete`.
  virtual StatusOr<size_t> WriteGlobalSnapshot(uint64_t number, const ShardSnapshot& snapshot,
                                               uint64_t complete) = 0;
  // NOT_FOUND: no such snapshot. DATA_LOSS: as in Read.
  virtual Status ReadGlobalSnapshot(uint64_t number, SnapshotSink& sink) = 0;
  StatusOr<ShardSnapshot> ReadGlobalSnapshot(uint64_t number);
  virtual StatusOr<std::vector<StoredGlobalSnapshot>> GlobalSnapshots() = 0;  // ascending

  // ---- WAL: changes since the checkpoint --------------------------------------------------------
  // Write drops the entries that its snapshot contains. AppendLog adds entries in one write and
  // returns their bytes. After OK, the entries survive the death of the process and, with `sync`,
  // of the machine. RESOURCE_EXHAUSTED: as above.
  virtual StatusOr<size_t> AppendLog(std::span<const LogEntry> entries, bool sync) = 0;
  // RESOURCE_EXHAUSTED: no room for entries of `bytes` (the message names directory, free and
  // needed bytes). Requires more room than AppendLog, so that accepted entries can be added a
  // little later.
  virtual Status CheckRoom(uint64_t bytes) = 0;
  // Syncs all entries added before.
  virtual Status SyncLog() = 0;
  // Calls `take` for every entry with a number above `after`, in order. DATA_LOSS: an entry is
  // missing or damaged.
  virtual Status ReadLog(uint64_t after, const std::function<Status(LogEntry)>& take) = 0;
  virtual Status ClearLog() = 0;
};

}  // namespace tandem::pserver
