// Passes a shard snapshot from its storage to a receiver: first the head, then the values in
// chunks. Only a few chunks are in memory at a time, in addition to the tables that the receiver
// builds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/status.h"
#include "pserver/state/shard_snapshot.h"
#include "pserver/state/values.h"

namespace tandem::pserver {

struct SnapshotChunk {
  enum class Kind : uint8_t {
    kSlice,  // parameters and optimizer slots of one slice
    kRows,   // rows of one bucket of one table
    // The values before the last update. These chunks exist only if ShardSnapshot::has_previous.
    // kPreviousSlice has only `slice.previous`; kPreviousRows has TableSnapshot::previous in
    // `rows`.
    kPreviousSlice,
    kPreviousRows,
  };
  Kind kind = Kind::kSlice;
  size_t index = 0;  // index in config.slices or in config.tables
  int bucket = 0;
  SliceSnapshot slice = {};
  RowValues rows = {};
};

class SnapshotSink {
 public:
  virtual ~SnapshotSink() = default;
  // Called once, before Take. `head`: the snapshot without slices and without the rows of its
  // tables.
  virtual Status Begin(ShardSnapshot head) = 0;
  // Called with the slices in order, then with the rows by table, then with the values before the
  // last update in the same order. After Take or the storage returns an error, no more chunks
  // follow.
  virtual Status Take(SnapshotChunk chunk) = 0;
};

// Assembles a snapshot from its chunks.
class SnapshotAssembler final : public SnapshotSink {
 public:
  Status Begin(ShardSnapshot head) override;
  Status Take(SnapshotChunk chunk) override;
  // The snapshot as received so far. It is complete when all chunks were received.
  ShardSnapshot& snapshot() { return snapshot_; }

 private:
  ShardSnapshot snapshot_;
};

// Passes a snapshot on with another number of its last log entry. After a restore, the log of the
// restored state begins at a higher number than that of the snapshot. `sink` must outlive this
// object.
class NumberedSink final : public SnapshotSink {
 public:
  NumberedSink(SnapshotSink& sink, uint64_t log_number) : sink_(sink), log_number_(log_number) {}
  Status Begin(ShardSnapshot head) override;
  Status Take(SnapshotChunk chunk) override;

 private:
  SnapshotSink& sink_;
  const uint64_t log_number_;
};

// Passes a snapshot in memory to `sink` in chunks.
Status SendChunks(ShardSnapshot snapshot, SnapshotSink& sink);

}  // namespace tandem::pserver
