// What goes from server to server when buckets of rows and dense slices move. A slice is a bucket
// too (SliceSpec::bucket).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pserver/state/move_state.h"

namespace tandem {

// Which buckets are to go where, for how long they wait for that, and (sync) before which step.
struct FreezeRequest {
  std::vector<int> buckets;  // ascending
  int target = 0;            // sync: also asked, which takes no pushes of the step either
  std::string address;       // of the target
  Duration lease{};          // zero: they are not to go any more
  uint64_t step = 0;
};

struct SliceMigration {
  SliceSpec spec;
  SliceSnapshot image;
};

// Buckets on their way from `source` to `target`: rows and slices with all that belongs to them,
// and which pushes are behind them.
struct BucketMigration {
  struct Scalar {
    std::string variable, slot;
    float value = 0;
  };
  ShardConfig config;  // without slices, no buckets; without a name when the target is not new
  int source = 0, target = 0;
  uint64_t version = 0;
  std::vector<BucketMove> moves;
  std::vector<RowValues> rows;  // by table
  std::vector<Scalar> scalars;  // slots of tables that are one number: for a server that is new
  std::vector<ServerPushState> marks;
  BucketMap map;  // as the source knows it
  // Sync: weights before the last update of rows that it changed, by table, where there are any.
  std::vector<RowValues> previous;
  bool has_previous = false;
  std::vector<SliceMigration> slices;
};

// What the update log says of moves.
struct MoveRecord {
  std::vector<BucketMove> moves;
  BucketMigration parcel;
  BucketMap map;
  bool leaving = false;
};

struct MapAnswer {
  BucketMap map;
  uint64_t generation = 0;
  int index = 0;
  std::vector<int> buckets;  // that are its own, frozen ones among them
  uint64_t rows = 0;
  size_t slices = 0;                  // that do not move
  std::vector<uint64_t> slice_bytes;  // of those buckets that are slices
  bool leaving = false;
  int frozen_for = -1;  // the target of its frozen buckets; -1: there are none
  uint64_t version = 0;
  bool sync = false;
};

}  // namespace tandem
