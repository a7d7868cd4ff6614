// Data about moves of row buckets and dense slices between servers. A slice also has a bucket
// number (SliceSpec::bucket).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "pserver/state/move_state.h"

namespace tandem::pserver {

// A request to freeze buckets for a move to server `target`.
struct FreezeRequest {
  std::vector<int> buckets;  // bucket numbers, ascending
  // Index of the target server. If buckets move between steps, the coordinator also sends the
  // request to the target, which then accepts no pushes of the step.
  int target = 0;
  std::string address;  // network address of the target
  Duration lease{};     // time until the freeze ends; zero: the freeze ends immediately
  uint64_t step = 0;    // sync: the step before which the buckets move
  // ShardConfig::each_step_once: by trainer, the step before which the buckets move; empty: the
  // coordinator does not know these steps yet.
  std::vector<uint64_t> trainer_steps = {};
  bool knows_trainer_steps = false;  // the coordinator knows ShardConfig::each_step_once
};

struct SliceMigration {
  SliceSpec spec;
  SliceSnapshot snapshot;
};

// The contents of a move from server `source` to server `target`: rows and slices with all their
// data, and a record of the pushes that are applied to them.
struct BucketMigration {
  struct Scalar {
    std::string variable, slot;
    float value = 0;
  };
  // Configuration of the job without slices and buckets. `config.job` is "" if the target already
  // has the configuration.
  ShardConfig config;
  int source = 0, target = 0;
  uint64_t version = 0;
  std::vector<BucketMove> moves;
  std::vector<RowValues> rows;  // by table: rows of the moved buckets
  std::vector<Scalar> scalars;  // one-number slots of tables; only if the target has no values
  std::vector<ServerPushState> marks;
  BucketMap map;  // moves that the source knows
  // Sync: by table, the rows that the last update changed, with their weights before this update.
  std::vector<RowValues> previous;
  bool has_previous = false;
  std::vector<SliceMigration> slices;
  // Highest event time of the pushes that the source applied; 0: unknown.
  int64_t event_time_ms = 0;
  std::map<std::string, RowChecks> checks;  // by table: the checks, if the rules are in event time
  // ShardConfig::each_step_once: by trainer, the number of its steps that the source has.
  std::vector<uint64_t> trainer_steps = {};
};

// The data about moves on which a global snapshot depends.
struct BucketPlacement {
  uint64_t map_version = 0;
  bool moving = false;  // true: some buckets are moving, so that their owner may change
};

// ---- Records of a move in the log ---------------------------------------------------------------

// The ownership epochs of moves that begin. Each epoch is used only once.
struct MoveBegunRecord {
  std::vector<BucketMove> moves;
};
// Buckets that this server received and does not serve yet.
struct MoveOfferedRecord {
  std::shared_ptr<const BucketMigration> migration;
};
// Buckets that this server gave away.
struct MoveReleasedRecord {
  std::vector<BucketMove> moves;
  BucketMap map;
};
// Buckets that this server serves from now on, or drops.
struct MoveLearnedRecord {
  BucketMap map;
};
// The server rejects buckets from now on, or accepts them again.
struct MoveRefusedRecord {
  bool leaving = false;
};

using MoveRecord = std::variant<MoveBegunRecord, MoveOfferedRecord, MoveReleasedRecord,
                                MoveLearnedRecord, MoveRefusedRecord>;

// ---- Exchange of maps ---------------------------------------------------------------------------

struct MapAnswer {
  BucketMap map;
  uint64_t generation = 0;
  int index = 0;
  std::vector<int> buckets;  // buckets that the server owns, including frozen ones
  uint64_t rows = 0;
  size_t slices = 0;  // number of slices that cannot move
  // Bytes of each slice, in the order of the slices in `buckets`.
  std::vector<uint64_t> slice_bytes;
  bool leaving = false;
  int frozen_for = -1;  // target server of the frozen buckets; -1: no bucket is frozen
  uint64_t version = 0;
  bool sync = false, each_step_once = false;
};

}  // namespace tandem::pserver
