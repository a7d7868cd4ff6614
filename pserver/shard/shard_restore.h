// Makes a shard's slices and tables of an image that comes piece by piece, beside those that are
// served meanwhile. They take their place once the image is whole; until then, and whatever is
// wrong with it, nothing changes.
#pragma once

#include <memory>

#include "pserver/shard/shard.h"
#include "pserver/storage/image_pieces.h"

namespace tandem {

// Not thread-safe.
class ShardRestore final : public SnapshotSink {
 public:
  explicit ShardRestore(Shard& shard) : shard_(shard) {}

  Status Begin(ShardSnapshot head) override;
  Status Take(SnapshotChunk piece) override;
  // Replaces everything. Those who wait are told ABORTED. REQUIRES: every piece was taken, and
  // whoever gave them found nothing wrong. Once.
  Status Finish();
  const ShardSnapshot& head() const { return head_; }

 private:
  Shard& shard_;
  ShardSnapshot head_;
  std::unique_ptr<ShardParams> params_;
};

}  // namespace tandem
