// The complete state of a shard at one version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/tables/push_header.h"
#include "common/tensor/device.h"
#include "pserver/state/row_checks.h"
#include "pserver/state/sequence_window.h"
#include "pserver/state/shard_config.h"
#include "pserver/state/values.h"

namespace tandem::pserver {

struct MoveState;  // defined in move_state.h

struct TrainerPushState {
  int trainer = 0;
  uint64_t incarnation = 0;
  bool completed = false;
  SequenceWindow applied;
  // Number of pushes since the job began whose values were lost with the trainer and the server, or
  // with the disk of the primary (Replication::kAsync); 0 in sync mode.
  uint64_t lost_pushes = 0;
  SentNumbers numbers = {};
  // Number of the trainer's steps that the shard has, and this number at the begin of the
  // incarnation. Both count only pushes with PushHeader::once.
  uint64_t steps = 0, adopted = 0;
  // true: the state was restored after the incarnation began, which must not push further steps.
  bool rolled_back = false;
};
struct SliceSnapshot {
  struct Slot {
    std::string name;
    int64_t numel = 0;
    Buffer values;
  };
  Buffer param;
  std::vector<Slot> slots;
  Buffer previous = nullptr;  // values before the last update, if ShardSnapshot::has_previous
};
// The rows of a table, in one RowValues for each bucket, and the one-number slots of the table.
struct TableSnapshot {
  std::vector<std::pair<int, RowValues>> buckets;
  std::vector<std::pair<std::string, float>> scalars;
  // The rows that the last update changed or removed, with their weights before the update.
  RowValues previous = {};
  bool partial = false;   // has only the rows that changed after ShardSnapshot::base
  RowChecks checks = {};  // the checks of the table, if its rules are in event time
};
// The complete state of a shard between two updates, in shared and immutable memory.
struct ShardSnapshot {
  ShardConfig config;
  uint64_t version = 0;
  uint64_t log_number = 0;  // number of the last WAL entry (wal.h) whose change is in the snapshot
  // Highest event time of the applied pushes (ShardState::event_time_ms); 0: unknown.
  int64_t event_time_ms = 0;
  std::vector<TrainerPushState> marks;
  std::vector<SliceSnapshot> slices;  // one for each slice, in the order of config.slices
  std::vector<TableSnapshot> tables;  // one for each table, in the order of config.tables
  // true: the snapshot has the parameters before the last update (only in sync mode with a WAL). A
  // trainer that replaces another trainer needs these parameters while servers are one step apart.
  bool has_previous = false;
  std::shared_ptr<const MoveState> moves = nullptr;  // known moves of buckets; null: no moves
  uint64_t order = 0;  // position in the sequence of snapshots that the shard made; not stored
  // Only in a delta: the version of the full snapshot (base) since which the tables have changes.
  std::optional<uint64_t> base = {};
  // Set by Storage::Read: the version of the full snapshot that can be the base of later deltas.
  std::optional<uint64_t> whole = {};
  size_t bytes() const;
};

// A function that returns a copy of the shard's state at the time when the function was made. The
// shard continues during the copy. The caller calls the function at most once, from a thread that
// may be busy for some time. Errors: those of Shard::Checkpoints::Take. If the function is
// destroyed without a call, the snapshot is abandoned. The function must not outlive the shard.
using SnapshotFn = std::function<StatusOr<ShardSnapshot>()>;

// The result of saving a checkpoint.
struct SavedCheckpoint {
  uint64_t version = 0;
  size_t bytes = 0;  // written bytes; 0: nothing had to be written
};

}  // namespace tandem::pserver
