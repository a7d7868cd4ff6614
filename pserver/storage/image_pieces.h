// A shard's image on its way from where it is kept: its head, then its values piece by piece, so
// that beside the tables that are made of them only some pieces are in memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/status.h"
#include "pserver/state/shard_types.h"

namespace tandem {

struct SnapshotChunk {
  enum class Kind : uint8_t {
    kSlice,  // parameters and slots
    kRows,   // of one bucket
    // ShardSnapshot::has_previous: `slice.previous` alone, and TableSnapshot::previous.
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
  // Once, first: the image without its slices, and with tables that have no rows.
  virtual Status Begin(ShardSnapshot head) = 0;
  // Slices in their order, then rows by tables, then what was before the last update, in the same
  // order. After an error nothing more comes.
  virtual Status Take(SnapshotChunk piece) = 0;
};

// An image whose pieces are put together again.
class SnapshotAssembler final : public SnapshotSink {
 public:
  Status Begin(ShardSnapshot head) override;
  Status Take(SnapshotChunk piece) override;
  // Whose every piece came.
  ShardSnapshot& image() { return image_; }

 private:
  ShardSnapshot image_;
};

// Takes an image apart.
Status GivePieces(ShardSnapshot image, SnapshotSink& taker);

}  // namespace tandem
