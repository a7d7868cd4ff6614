// Input and output types of a shard, independent of any wire format. The gRPC code (service.cc),
// the storage and the tests use them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/tensor/bucket_map.h"
#include "common/tensor/device.h"
#include "common/tensor/table_rules.h"
#include "common/tensor/types.h"
#include "kernels/graph/optimizer.h"
#include "pserver/state/push_bytes.h"
#include "pserver/state/sequence_window.h"

namespace tandem::pserver {

struct MoveState;  // see move_state.h

enum class ShardMode : uint8_t { kSync, kASync };
const char* Name(ShardMode mode);  // "sync", "a_sync"

// Handling of a push with NaN or infinity.
enum class NonfinitePolicy : uint8_t {
  kReject,  // rejected; the message names the first value
  kSkip,    // accepted without effect: in sync mode its gradients are zeros
  kApply    // no check
};
const char* Name(NonfinitePolicy policy);  // "reject", "skip", "apply"

// Elements [offset, offset + numel) of a flattened f32 variable.
struct SliceSpec {
  std::string variable;
  Shape shape;  // of the whole variable
  int64_t offset = 0, numel = 0;
  int bucket = 0;  // kRowBuckets or more: bucket number in moves; 0: the slice does not move
  friend bool operator==(const SliceSpec& a, const SliceSpec& b) {  // compares the elements only
    return std::tie(a.variable, a.shape, a.offset, a.numel) ==
           std::tie(b.variable, b.shape, b.offset, b.numel);
  }
};

// The rows of a table [height, dim] in row buckets [bucket_begin, bucket_end)
// (common/tensor/row_buckets.h).
struct TableSpec {
  std::string variable;
  Shape shape;  // [height, dim]
  Init init;
  uint64_t seed = 0;
  int bucket_begin = 0, bucket_end = 0;
  TableRules rules;
  int64_t height() const { return shape[0]; }
  int64_t dim() const { return shape[1]; }
};

// The job configuration, equal for all trainers.
struct ShardConfig {
  std::string job;
  int trainers = 0;
  ShardMode mode = ShardMode::kSync;
  OptimizerSpec optimizer;
  std::vector<SliceSpec> slices;
  Duration step_timeout = std::chrono::seconds(60);
  std::vector<TableSpec> tables;
  NonfinitePolicy nonfinite = NonfinitePolicy::kReject;
  // A trainer without a call for this time is lost, even if no trainer waits for it. In a_sync
  // mode, others then no longer wait for it until it calls again.
  Duration lost_after = std::chrono::seconds(900);
  // a_sync: a gradient g of a slice becomes g + this * g * g * (w - w pulled last by its trainer).
  float delay_compensation = 0;
};

// INVALID_ARGUMENT: invalid names, ranges, overlaps or limits (the message says which).
Status CheckConfig(const ShardConfig& config);
// FAILED_PRECONDITION: a call for another job than the one served.
Status CheckJob(const std::string& job, const std::string& served);
// Returns "" if equal, otherwise the first difference as text: "mode is a_sync, was sync".
std::string Difference(const ShardConfig& now, const ShardConfig& before);
// Copies the settings for faulty pushes and trainers, and nothing about stored values.
void CopyFaultPolicy(const ShardConfig& from, ShardConfig& config);

// The caller of a request.
struct Caller {
  std::string job;
  int trainer = 0;
  uint64_t incarnation = 0;
};

struct ConfigureResult {
  uint64_t server_incarnation = 0;
  bool initialised = false, restored = false;
  uint64_t version = 0;
  BucketMap map = {};  // of buckets that moved
  uint64_t generation = 0;
  bool replayable = false;
  uint64_t keep_bytes_max = 0;
};

// f32 values of one slice.
struct SliceValues {
  std::string variable;
  int64_t offset = 0;
  int64_t numel = 0;
  Buffer values;
};
struct SlotValues {
  std::string variable;
  int64_t offset = 0;
  std::string slot;
  int64_t numel = 0;
  Buffer values;
};

// Use data of a row (RowUse of row_store.h), with the age in versions since its last gradient.
struct RowAge {
  float show = 1;
  uint32_t age = 0;
  float click = 0;
  bool brief = false;  // the row has only its first value and the first value of each slot
};
// A row that is not admitted yet: number of versions with a gradient, and versions since the last.
struct WaitingRow {
  uint64_t id = 0;
  uint32_t seen = 0, age = 0;
  friend bool operator==(const WaitingRow&, const WaitingRow&) = default;
};

// Rows of a table with their slots, for InitParams and PullTable.
struct RowValues {
  std::string variable;
  std::vector<uint64_t> ids;
  std::vector<float> content;  // for each row its values, then its slots; shorter for brief rows
  bool last = false;
  std::vector<RowAge> use;  // by row; empty: as for rows that are used now
  std::vector<WaitingRow> waiting;
};
struct TablePage {
  uint64_t version = 0;
  RowValues rows;
  std::vector<std::string> slots;  // names of the slots in the rows
  std::vector<float> slot_start;
  int next_bucket = 0;
};
// Optimizer slots, as of a version.
struct VersionedSlots {
  uint64_t version = 0;
  std::vector<SlotValues> slots;
};
// A checkpoint on the disk.
struct SavedCheckpoint {
  uint64_t version = 0;
  size_t bytes = 0;  // written; 0: nothing had to be written
};

// Fields of PushRequest (proto/pserver.proto): by server, message numbers of one trainer.
struct SentNumbers {
  std::vector<uint64_t> sent;   // the newest ones
  std::vector<uint64_t> ended;  // all pushes up to these have ended with all their messages
  // Raises each number to that of `other` if that is higher.
  void Raise(const SentNumbers& other);
  static uint64_t At(const std::vector<uint64_t>& numbers, int server);  // 0: not known
};

// A push without its values. The gradient of a table is two slices with its name: the row ids, i64
// [n], ascending, then the values, f32 [n, dim].
struct PushHead {
  struct Slice {
    std::string variable;
    int64_t offset = 0;
    TensorDesc desc;
  };
  Caller caller;
  uint64_t sequence = 0, step = 0;
  float learning_rate = 0;
  std::vector<Slice> slices;
  // Fields of PushRequest (proto/pserver.proto): the generation by which the sender chose the rows,
  // and the server to which it sent them before (index + 1; 0: none).
  uint64_t generation = 0;
  int origin_server = 0;
  uint64_t origin_sequence = 0;
  SentNumbers numbers = {};
  bool finite = false;  // the sender has checked the gradients
};
enum class PushVerdict : uint8_t {
  kNew,        // to be applied
  kDuplicate,  // accepted before; its values are not needed
  kReplayed,   // accepted before; its values complete a change that the shard replays
};
// Destinations of the values of an admitted push, in the order of PushHead::slices.
struct PushTicket {
  PushVerdict verdict = PushVerdict::kNew;
  NonfinitePolicy nonfinite = NonfinitePolicy::kReject;
  std::vector<int> slices;  // indices as in ShardParams; both parts of a table have the same index
  std::vector<PushBytes> buffers;
  bool skipped = false;  // NonfinitePolicy::kSkip applied
  bool duplicate() const { return verdict == PushVerdict::kDuplicate; }
  bool replayed() const { return verdict == PushVerdict::kReplayed; }
};
// Time of the last change of the parameters; Time(): none yet.
struct UpdateTime {
  Time begin, end;
};

struct PushOutcome {
  uint64_t version = 0;
  bool duplicate = false;
  UpdateTime update;  // the newest one
  // Fields of PushReply (proto/pserver.proto).
  uint64_t log_number = 0, kept_number = 0;
};

struct PullRange {
  std::string variable;
  int64_t offset = 0, numel = 0;
};
struct PullRows {
  std::string variable;
  std::vector<uint64_t> ids;
};
struct PullQuery {
  Caller caller;
  bool observer = false;  // the caller is not a trainer
  uint64_t min_version = 0;
  std::vector<PullRange> ranges;  // empty, and no rows: all slices
  uint64_t min_step = 0;          // a_sync: steps that the slowest trainer must have pushed
  // Sync: exactly this version, the current or the previous one.
  std::optional<uint64_t> at_version;
  std::vector<PullRows> rows;
};
// Shared, immutable memory, which can be sent without a copy.
struct PulledSlice {
  std::string variable;
  int64_t offset = 0, numel = 0;
  Buffer values;     // of the whole slice
  size_t first = 0;  // element of `values` at which the range begins
  int64_t dim = 0;   // 0: a slice; otherwise numel / dim rows of a table
};
struct PullResult {
  uint64_t version = 0;
  uint64_t server_incarnation = 0;
  std::vector<PulledSlice> slices;
  UpdateTime update;  // the newest one
};

struct TrainerInfo {
  int trainer = 0;
  bool seen = false, completed = false, lost = false;
  uint64_t incarnation = 0, pushes = 0, last_step = 0;
  uint64_t skipped = 0;      // of `pushes`: skipped by NonfinitePolicy::kSkip
  uint64_t lost_pushes = 0;  // pushes whose values are lost (push_replay.h), since the job began
  double silent_seconds = 0;
  double waited_seconds = 0;   // time its calls waited for other trainers, since the server started
  double waited_recently = 0;  // the part of waited_seconds in the last minute
};
struct TableInfo {
  std::string variable;
  size_t rows = 0, bytes = 0;
  size_t waiting = 0;  // rows not admitted yet
  // Since the server started:
  uint64_t dropped = 0;  // gradients of rows that were not admitted
  uint64_t removed = 0;  // rows
  size_t extended = 0;   // of `rows`: full rows (row_accessor.h)
  // Only if rows may be outside memory (row_tiers.h). The last three count since the table was
  // created:
  size_t cold_rows = 0;     // of `rows`
  uint64_t fetched = 0;     // rows read into memory
  uint64_t written = 0;     // rows evicted with a write
  double read_seconds = 0;  // time spent waiting for rows
};
struct ShardInfo {
  bool configured = false, initialised = false;
  ShardConfig config;  // empty if not configured
  uint64_t version = 0;
  std::vector<TrainerInfo> trainers;
  std::vector<TableInfo> tables;
  size_t buckets = 0;        // row buckets that it serves
  uint64_t map_version = 0;  // of the moves that it knows (BucketMap); 0: no moves
  uint64_t last_cut = 0;     // highest number of a snapshot that was taken, abandoned or begun here
};

// ---- Checkpoints --------------------------------------------------------------------------------

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

// ---- Global snapshots (global_snapshot_hold.h) --------------------------------------------------

// The pushes of a trainer that belong to a global snapshot.
struct SnapshotFrontier {
  int trainer = 0;
  uint64_t incarnation = 0;
  bool completed = false;  // all its pushes have ended
  SentNumbers numbers;
};
struct PausedState {
  std::vector<SnapshotFrontier> marks;  // of all trainers
  BucketMap map;
};
struct SnapshotRequest {
  uint64_t cut = 0;  // its number
  std::vector<SnapshotFrontier> marks;
  uint64_t map_version = 0;  // of BucketMap, as in PausedState
  Duration lease{};          // maximum wait for missing pushes
  uint64_t taker = 0;        // the coordinator (HoldPushesRequest.taker)
};
// A global snapshot on the disk of a server.
struct KeptCut {
  uint64_t number = 0, version = 0;
  friend bool operator==(const KeptCut&, const KeptCut&) = default;
};
struct PendingSnapshot {
  SnapshotFn copy;
  Duration held{};  // time without new pushes
};

inline std::span<const float> Floats(const Buffer& buffer, int64_t numel) {
  return {reinterpret_cast<const float*>(buffer.get()), static_cast<size_t>(numel)};
}

}  // namespace tandem::pserver
