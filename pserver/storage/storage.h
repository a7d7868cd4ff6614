// Where a shard's checkpoints and its log are kept. An interface, so that tests and the simulator
// can bring a store that forgets or fails.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "pserver/disk/checkpoint_throttle.h"
#include "pserver/state/shard_types.h"
#include "pserver/state/wal.h"
#include "pserver/storage/image_pieces.h"

namespace tandem {

// Thread-safe.
class Storage {
 public:
  virtual ~Storage() = default;
  // Replaces the checkpoint by this one: after a crash at any moment there is the old one or the
  // new one, whole, and once this returned OK it is the new one (synced). Gives the bytes written.
  // RESOURCE_EXHAUSTED, with nothing changed, when less space is free than the floor. A delta
  // (ShardSnapshot::base) takes the place of another delta and leaves the whole image that it
  // builds upon: FAILED_PRECONDITION when that is not there.
  virtual StatusOr<size_t> Write(const ShardSnapshot& image) = 0;
  // Gives `taker` a whole image; false, and nothing, when there is none. DATA_LOSS when it is
  // damaged or older than the last one acknowledged: what was taken of it must not be used.
  virtual StatusOr<bool> Read(SnapshotSink& taker) = 0;
  StatusOr<std::optional<ShardSnapshot>> Read();

  // ---- Cuts over all servers, beside the checkpoint: whole images by number. Written as
  // checkpoints are; with one that is written, those before number `complete` are dropped.
  virtual StatusOr<size_t> WriteCut(uint64_t cut, const ShardSnapshot& image,
                                    uint64_t complete) = 0;
  virtual Status ReadCut(uint64_t cut, SnapshotSink& taker) = 0;  // NOT_FOUND; DATA_LOSS as above
  StatusOr<ShardSnapshot> ReadCut(uint64_t cut);
  virtual StatusOr<std::vector<KeptCut>> Cuts() = 0;  // ascending

  // ---- The log: what changed since the checkpoint. Write drops what its image holds.
  // Adds entries in one write; gives their bytes. Once it returned they survive the death of the
  // process, and with `sync` that of the machine. RESOURCE_EXHAUSTED as above.
  virtual StatusOr<size_t> AppendLog(std::span<const LogEntry> entries, bool sync) = 0;
  // RESOURCE_EXHAUSTED naming folder, free and needed bytes when entries of `bytes` could not be
  // added. Asks for more than AppendLog does: what passed here can be added a little later.
  virtual Status CheckRoom(uint64_t bytes) = 0;
  // So do all that were added before.
  virtual Status SyncLog() = 0;
  // Calls `take` for every entry behind number `after`, in order. DATA_LOSS when one is missing or
  // damaged.
  virtual Status ReadLog(uint64_t after, const std::function<Status(LogEntry)>& take) = 0;
  virtual Status ClearLog() = 0;
};

}  // namespace tandem
