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
#include "pserver/state/sequence_window.h"
#include "pserver/state/shard_config.h"
#include "pserver/state/values.h"

namespace tandem::pserver {

struct MoveState;  // see move_state.h

struct TrainerPushState {
  int trainer = 0;
  uint64_t incarnation = 0;
  bool completed = false;
  SequenceWindow applied;
  uint64_t lost_pushes = 0;  // as in TrainerInfo
  SentNumbers numbers = {};
};
struct SliceSnapshot {
  struct Slot {
    std::string name;
    int64_t numel = 0;
    Buffer values;
  };
  Buffer param;
  std::vector<Slot> slots;
  Buffer previous = nullptr;  // see ShardSnapshot::has_previous
};
// The rows of a table by bucket, each as a RowValues, and its one-number slots.
struct TableSnapshot {
  std::vector<std::pair<int, RowValues>> buckets;
  std::vector<std::pair<std::string, float>> scalars;
  RowValues previous = {};  // only weights, of rows that the last update changed or removed
  bool partial = false;     // only rows that changed since ShardSnapshot::base
};
// The complete state of a shard between two updates. The memory is shared and immutable.
struct ShardSnapshot {
  ShardConfig config;
  uint64_t version = 0;
  uint64_t log_number = 0;  // last WAL entry (wal.h) that the snapshot contains
  std::vector<TrainerPushState> marks;
  std::vector<SliceSnapshot> slices;  // in the order of config.slices
  std::vector<TableSnapshot> tables;  // in the order of config.tables
  // Sync mode with a WAL: the snapshot includes the parameters before the last update. A trainer
  // that replaces another one needs them while servers are one step apart.
  bool has_previous = false;
  std::shared_ptr<const MoveState> moves = nullptr;  // null: no moves
  uint64_t order = 0;  // number of this snapshot in the shard's life; not stored
  // Set in a delta: its tables may contain only changes since the full snapshot of this version.
  std::optional<uint64_t> base = {};
  // Set by Storage::Read: the version of the full snapshot on which deltas may build.
  std::optional<uint64_t> whole = {};
  size_t bytes() const;
};

// Copies the state as of the creation of this function while the shard continues. Call it at most
// once, from a thread that may be busy for some time. Fails as Shard::Checkpoints::Take does.
// Destroying it without a call abandons the snapshot. Must not outlive the shard.
using SnapshotFn = std::function<StatusOr<ShardSnapshot>()>;

// A checkpoint on the disk.
struct SavedCheckpoint {
  uint64_t version = 0;
  size_t bytes = 0;  // written; 0: nothing had to be written
};

}  // namespace tandem::pserver
