// Builds slices and tables of a shard from a streamed snapshot while the old ones are still served.
// They replace the old ones when the snapshot is complete. Until then, and after any error, the
// shard is unchanged.
#pragma once

#include <memory>

#include "pserver/shard/shard.h"
#include "pserver/storage/snapshot_chunks.h"

namespace tandem::pserver {

// Not thread-safe.
class ShardRestore final : public SnapshotSink {
 public:
  explicit ShardRestore(Shard& shard) : shard_(shard) {}

  Status Begin(ShardSnapshot head) override;
  Status Take(SnapshotChunk piece) override;
  // Replaces the whole state. Waiting calls receive ABORTED. REQUIRES: all chunks were received and
  // their sender reported no error. Call once.
  Status Finish();
  const ShardSnapshot& head() const { return head_; }

 private:
  Shard& shard_;
  ShardSnapshot head_;
  std::unique_ptr<ShardParams> params_;
};

}  // namespace tandem::pserver
