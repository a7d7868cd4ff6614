// Streams a shard snapshot from its storage: its head, then its values in chunks. Besides the
// tables built from them, only a few chunks are in memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/status.h"
#include "pserver/state/shard_snapshot.h"
#include "pserver/state/values.h"

namespace tandem::pserver {

struct SnapshotChunk {
  enum class Kind : uint8_t {
    kSlice,  // parameters and slots
    kRows,   // rows of one bucket
    // Only if ShardSnapshot::has_previous: only `slice.previous`, and TableSnapshot::previous.
    kPreviousSlice,
    kPreviousRows,
  };
  Kind kind = Kind::kSlice;
  size_t index = 0;  // in the configuration's slices, or in its tables
  int bucket = 0;
  SliceSnapshot slice = {};
  RowValues rows = {};
};

class SnapshotSink {
 public:
  virtual ~SnapshotSink() = default;
  // Called once, first: the snapshot without slices, with tables that have no rows.
  virtual Status Begin(ShardSnapshot head) = 0;
  // Receives slices in order, then rows by table, then the values before the last update in the
  // same order. After an error, no more chunks follow.
  virtual Status Take(SnapshotChunk chunk) = 0;
};

// Assembles a snapshot from its chunks.
class SnapshotAssembler final : public SnapshotSink {
 public:
  Status Begin(ShardSnapshot head) override;
  Status Take(SnapshotChunk chunk) override;
  // Valid after all chunks were received.
  ShardSnapshot& snapshot() { return snapshot_; }

 private:
  ShardSnapshot snapshot_;
};

// Sends a snapshot to `sink` in chunks.
Status SendChunks(ShardSnapshot snapshot, SnapshotSink& sink);

}  // namespace tandem::pserver
