// Data of moves of row buckets and dense slices between servers. A slice has a bucket number too
// (SliceSpec::bucket).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "pserver/state/move_state.h"

namespace tandem::pserver {

// Freezes buckets for a move to `target`.
struct FreezeRequest {
  std::vector<int> buckets;  // ascending
  // In sync mode the target receives the request too, and accepts no pushes of the step.
  int target = 0;
  std::string address;  // of the target
  Duration lease{};     // time until the freeze ends; zero: ends the freeze now
  uint64_t step = 0;
};

struct SliceMigration {
  SliceSpec spec;
  SliceSnapshot snapshot;
};

// Contents of a move from `source` to `target`: rows and slices with all their data, and the marks
// of the pushes applied to them.
struct BucketMigration {
  struct Scalar {
    std::string variable, slot;
    float value = 0;
  };
  // Without slices, no buckets; without a name if the target already has the configuration.
  ShardConfig config;
  int source = 0, target = 0;
  uint64_t version = 0;
  std::vector<BucketMove> moves;
  std::vector<RowValues> rows;  // by table
  std::vector<Scalar> scalars;  // one-number slots of tables, for a server without values
  std::vector<ServerPushState> marks;
  BucketMap map;  // as known to the source
  // Sync: by table, the previous weights of rows that the last update changed.
  std::vector<RowValues> previous;
  bool has_previous = false;
  std::vector<SliceMigration> slices;
};

// Where buckets are, as far as a global snapshot depends on it.
struct BucketPlacement {
  uint64_t map_version = 0;
  bool moving = false;  // the owner of some buckets is going to change
};

// ---- Changes of the owners of buckets, as they are logged
// ----------------------------------------

// Ownership epochs of moves, which are used once.
struct MoveBegunRecord {
  std::vector<BucketMove> moves;
};
// Buckets that are received, and not served yet.
struct MoveOfferedRecord {
  std::shared_ptr<const BucketMigration> migration;
};
// Buckets that are given away.
struct MoveReleasedRecord {
  std::vector<BucketMove> moves;
  BucketMap map;
};
// Buckets that are served from now on, or dropped.
struct MoveLearnedRecord {
  BucketMap map;
};
// Buckets are rejected from now on, or accepted again.
struct MoveRefusedRecord {
  bool leaving = false;
};

using MoveRecord = std::variant<MoveBegunRecord, MoveOfferedRecord, MoveReleasedRecord,
                                MoveLearnedRecord, MoveRefusedRecord>;

// ---- Exchange of maps
// ----------------------------------------------------------------------------

struct MapAnswer {
  BucketMap map;
  uint64_t generation = 0;
  int index = 0;
  std::vector<int> buckets;  // owned by the server, including frozen ones
  uint64_t rows = 0;
  size_t slices = 0;                  // slices that do not move
  std::vector<uint64_t> slice_bytes;  // of those buckets that are slices
  bool leaving = false;
  int frozen_for = -1;  // target of the frozen buckets; -1: none
  uint64_t version = 0;
  bool sync = false;
};

}  // namespace tandem::pserver
