// Input and output types of a shard, which do not depend on a wire format. The gRPC code
// (service.cc), the storage and the tests use them.
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
#include "common/tables/bucket_map.h"
#include "common/tables/table_rules.h"
#include "common/tensor/device.h"
#include "common/tensor/types.h"
#include "kernels/graph/optimizer.h"
#include "pserver/state/push_bytes.h"
#include "pserver/state/sequence_window.h"

namespace tandem::pserver {

struct MoveState;  // defined in move_state.h

enum class ShardMode : uint8_t { kSync, kASync };
const char* Name(ShardMode mode);  // returns "sync" or "a_sync"

// How a shard handles a push that contains NaN or infinity.
enum class NonfinitePolicy : uint8_t {
  kReject,  // rejects the push; the message names the first such value
  kSkip,    // accepts the push without effect: in sync mode its gradients count as zeros
  kApply    // does not check the values
};
const char* Name(NonfinitePolicy policy);  // returns "reject", "skip" or "apply"

// A slice: elements [offset, offset + numel) of a flattened f32 variable.
struct SliceSpec {
  std::string variable;
  Shape shape;  // shape of the whole variable
  int64_t offset = 0, numel = 0;
  int bucket = 0;  // bucket number in moves, kRowBuckets or more; 0: the slice does not move
  // Compares the elements, but not the buckets.
  friend bool operator==(const SliceSpec& a, const SliceSpec& b) {
    return std::tie(a.variable, a.shape, a.offset, a.numel) ==
           std::tie(b.variable, b.shape, b.offset, b.numel);
  }
};

// The rows of a table [height, dim] that are in the row buckets [bucket_begin, bucket_end)
// (common/tables/row_buckets.h).
struct TableSpec {
  std::string variable;
  Shape shape;  // shape of the whole table: [height, dim]
  Init init;
  uint64_t seed = 0;
  int bucket_begin = 0, bucket_end = 0;
  TableRules rules;
  int64_t height() const { return shape[0]; }
  int64_t dim() const { return shape[1]; }
};

// The configuration of a job, equal for all its trainers.
struct ShardConfig {
  std::string job;
  int trainers = 0;
  ShardMode mode = ShardMode::kSync;
  OptimizerSpec optimizer;
  std::vector<SliceSpec> slices;
  Duration step_timeout = std::chrono::seconds(60);
  std::vector<TableSpec> tables;
  NonfinitePolicy nonfinite = NonfinitePolicy::kReject;
  // A trainer that makes no call for this time is lost, even if no trainer waits for it. In a_sync
  // mode, the other trainers no longer wait for it until it calls again.
  Duration lost_after = std::chrono::seconds(900);
  // a_sync: the strength s of the delay compensation. A gradient g of a slice becomes g + s * g * g
  // * (w - v), where w is the current value and v the value that the trainer pulled last.
  float delay_compensation = 0;
};

// INVALID_ARGUMENT: a name or range is invalid, ranges overlap, or a limit is exceeded (the message
// says which).
Status CheckConfig(const ShardConfig& config);
// FAILED_PRECONDITION: `job` is not the job that the server serves.
Status CheckJob(const std::string& job, const std::string& served);
// Returns "" if the configurations are equal. Otherwise returns the first difference as text: "mode
// is a_sync, was sync".
std::string Difference(const ShardConfig& now, const ShardConfig& before);
// Copies the settings that concern faulty pushes and lost trainers. Copies no setting that concerns
// stored values.
void CopyFaultPolicy(const ShardConfig& from, ShardConfig& config);

// The trainer that sent a request.
struct Caller {
  std::string job;
  int trainer = 0;
  uint64_t incarnation = 0;
};

struct ConfigureResult {
  uint64_t server_incarnation = 0;
  bool initialised = false, restored = false;
  uint64_t version = 0;
  BucketMap map = {};  // moves of buckets that the shard knows
  uint64_t generation = 0;
  bool replayable = false;
  uint64_t keep_bytes_max = 0;
};

// The f32 values of one slice.
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

// Use data of a row, as RowUse of row_slabs.h, but with an age. The age is the number of versions
// since the last gradient of the row.
struct RowAge {
  float show = 1;
  uint32_t age = 0;
  float click = 0;
  bool brief = false;  // whether the row has only its first value and the first value of each slot
};
// A row that is not admitted yet. `seen`: number of versions in which it had a gradient. `age`:
// number of versions since the last one.
struct WaitingRow {
  uint64_t id = 0;
  uint32_t seen = 0, age = 0;
  friend bool operator==(const WaitingRow&, const WaitingRow&) = default;
};

// Rows of a table with their slots, as in InitParams and PullTable.
struct RowValues {
  std::string variable;
  std::vector<uint64_t> ids;
  std::vector<float> content;  // values of each row, followed by its slots; brief rows are shorter
  bool last = false;
  std::vector<RowAge> use;  // by row: its use data; empty: all rows count as used now
  std::vector<WaitingRow> waiting;
};
struct TablePage {
  uint64_t version = 0;
  RowValues rows;
  std::vector<std::string> slots;  // names of the slots in `rows`
  std::vector<float> slot_start;
  int next_bucket = 0;
};
// Optimizer slots that belong to one version.
struct VersionedSlots {
  uint64_t version = 0;
  std::vector<SlotValues> slots;
};
// The result of saving a checkpoint.
struct SavedCheckpoint {
  uint64_t version = 0;
  size_t bytes = 0;  // written bytes; 0: nothing had to be written
};

// Message numbers of one trainer by server, as in PushRequest (proto/pserver.proto).
struct SentNumbers {
  std::vector<uint64_t> sent;  // the newest number sent to each server
  // Up to these numbers, all pushes have ended with all their messages.
  std::vector<uint64_t> ended;
  // Raises each number to the number of `other` if that is higher.
  void Raise(const SentNumbers& other);
  // Returns the number of the server; 0: not known.
  static uint64_t At(const std::vector<uint64_t>& numbers, int server);
};

// A push without its values. The gradient of a table consists of two slices with the name of the
// table: the row ids, i64 [n], ascending, then the values, f32 [n, dim].
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
  // Fields of PushRequest (proto/pserver.proto). `generation`: the ownership generation by which
  // the sender chose the rows. `origin_server`: the server to which it sent the rows before (index
  // + 1; 0: none).
  uint64_t generation = 0;
  int origin_server = 0;
  uint64_t origin_sequence = 0;
  SentNumbers numbers = {};
  bool finite = false;  // the sender has checked the gradients for NaN and infinity
};
enum class PushVerdict : uint8_t {
  kNew,        // the push is not applied yet
  kDuplicate,  // the push was accepted before, and its values are not needed
  // The push was accepted before, and its values complete a change that the shard replays.
  kReplayed,
};
// Memory for the values of an admitted push, in the order of PushHead::slices.
struct PushTicket {
  PushVerdict verdict = PushVerdict::kNew;
  NonfinitePolicy nonfinite = NonfinitePolicy::kReject;
  // Index of each slice or table, as in ShardParams; the two slices of a table have the same index.
  std::vector<int> slices;
  std::vector<PushBytes> buffers;
  bool skipped = false;  // the push has no effect, because of NonfinitePolicy::kSkip
  bool duplicate() const { return verdict == PushVerdict::kDuplicate; }
  bool replayed() const { return verdict == PushVerdict::kReplayed; }
};
// Times at which the last change of the parameters began and ended; Time(): there was no change.
struct UpdateTime {
  Time begin, end;
};

struct PushOutcome {
  uint64_t version = 0;
  bool duplicate = false;
  UpdateTime update;  // times of the newest update
  // Log numbers, as in PushReply (proto/pserver.proto).
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
  bool observer = false;  // the caller is not a trainer, so its trainer and incarnation are ignored
  uint64_t min_version = 0;
  std::vector<PullRange> ranges;  // slices to pull; empty, and `rows` empty: all slices
  uint64_t min_step = 0;  // a_sync: minimum number of steps that the slowest trainer has pushed
  // Sync: the requested version, which must be the current or the previous one.
  std::optional<uint64_t> at_version;
  std::vector<PullRows> rows;
};
// A slice of a pull's result, in shared, immutable memory that can be sent without a copy.
struct PulledSlice {
  std::string variable;
  int64_t offset = 0, numel = 0;
  Buffer values;     // values of the whole slice
  size_t first = 0;  // index in `values` at which the requested range begins
  int64_t dim = 0;   // 0: dense values; otherwise numel / dim rows of a table
};
struct PullResult {
  uint64_t version = 0;
  uint64_t server_incarnation = 0;
  std::vector<PulledSlice> slices;
  UpdateTime update;  // times of the newest update
};

struct TrainerInfo {
  int trainer = 0;
  bool seen = false, completed = false, lost = false;
  uint64_t incarnation = 0, pushes = 0, last_step = 0;
  uint64_t skipped = 0;  // number of `pushes` that were skipped by NonfinitePolicy::kSkip
  // Number of pushes whose values are lost (push_replay.h), since the job began.
  uint64_t lost_pushes = 0;
  double silent_seconds = 0;
  // Time for which its calls waited for other trainers, since the server started.
  double waited_seconds = 0;
  double waited_recently = 0;  // the part of waited_seconds in the last minute
};
struct TableInfo {
  std::string variable;
  size_t rows = 0, bytes = 0;
  size_t waiting = 0;  // number of rows that are not admitted yet
  // `dropped` and `removed` are counted since the server started.
  uint64_t dropped = 0;  // number of gradients of rows that were not admitted
  uint64_t removed = 0;  // number of removed rows
  size_t extended = 0;   // number of full rows (row_accessor.h) among `rows`
  // These fields are 0 if all rows are in memory (row_tiers.h). `fetched`, `written` and
  // `read_seconds` are counted since the table was created.
  size_t cold_rows = 0;     // number of rows that exist only outside memory
  uint64_t fetched = 0;     // number of rows read into memory
  uint64_t written = 0;     // number of rows that were written when they left memory
  double read_seconds = 0;  // time spent waiting for reads of rows
};
struct ShardInfo {
  bool configured = false, initialised = false;
  ShardConfig config;  // empty if the shard is not configured
  uint64_t version = 0;
  std::vector<TrainerInfo> trainers;
  std::vector<TableInfo> tables;
  size_t buckets = 0;  // number of row buckets that the shard serves
  // Version of the moves that the shard knows (BucketMap); 0: it knows no moves.
  uint64_t map_version = 0;
  // Highest number of a global snapshot that was taken, abandoned or begun on this server.
  uint64_t last_cut = 0;
  uint64_t repeated_pushes = 0;  // number of received pushes that this process had accepted before
};

// ---- Checkpoints --------------------------------------------------------------------------------

struct TrainerPushState {
  int trainer = 0;
  uint64_t incarnation = 0;
  bool completed = false;
  SequenceWindow applied;
  uint64_t lost_pushes = 0;  // number of lost pushes, as in TrainerInfo
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
  Buffer previous = nullptr;  // values before the last update, if ShardSnapshot::has_previous
};
// The rows of a table, in one RowValues for each bucket, and the one-number slots of the table.
struct TableSnapshot {
  std::vector<std::pair<int, RowValues>> buckets;
  std::vector<std::pair<std::string, float>> scalars;
  // Weights before the last update, of the rows that it changed or removed.
  RowValues previous = {};
  bool partial = false;  // has only the rows that changed since ShardSnapshot::base
};
// The complete state of a shard between two updates, in shared and immutable memory.
struct ShardSnapshot {
  ShardConfig config;
  uint64_t version = 0;
  uint64_t log_number = 0;  // number of the last WAL entry (wal.h) whose change is in the snapshot
  std::vector<TrainerPushState> marks;
  std::vector<SliceSnapshot> slices;  // one for each slice, in the order of config.slices
  std::vector<TableSnapshot> tables;  // one for each table, in the order of config.tables
  // Only in sync mode with a WAL: the snapshot has the parameters before the last update. A trainer
  // that replaces another one needs these parameters while servers are one step apart.
  bool has_previous = false;
  std::shared_ptr<const MoveState> moves = nullptr;  // known moves of buckets; null: no moves
  uint64_t order = 0;  // number of this snapshot among all that the shard made; not stored
  // Set in a delta. Its tables may have only the changes since the full snapshot of this version.
  std::optional<uint64_t> base = {};
  // Set by Storage::Read: the version of the full snapshot on which later deltas may build.
  std::optional<uint64_t> whole = {};
  size_t bytes() const;
};

// A function that copies the state of the moment at which the function was made, while the shard
// continues. Call it at most once, from a thread that may be busy for some time. Errors: as
// Shard::Checkpoints::Take. If the function is destroyed without a call, the snapshot is abandoned.
// It must not outlive the shard.
using SnapshotFn = std::function<StatusOr<ShardSnapshot>()>;

// ---- Global snapshots (global_snapshot_hold.h) --------------------------------------------------

// The pushes of one trainer that belong to a global snapshot.
struct SnapshotFrontier {
  int trainer = 0;
  uint64_t incarnation = 0;
  bool completed = false;  // the trainer has completed the job, and all its pushes have ended
  SentNumbers numbers;
};
struct PausedState {
  std::vector<SnapshotFrontier> marks;  // accepted pushes of all trainers
  BucketMap map;
};
struct SnapshotRequest {
  uint64_t cut = 0;  // number of the global snapshot
  std::vector<SnapshotFrontier> marks;
  uint64_t map_version = 0;  // version of BucketMap; the map is in PausedState
  Duration lease{};          // maximum time of waiting for missing pushes
  uint64_t taker = 0;        // identifies the coordinator (HoldPushesRequest.taker)
};
// A global snapshot that is on the disk of a server.
struct KeptCut {
  uint64_t number = 0, version = 0;
  friend bool operator==(const KeptCut&, const KeptCut&) = default;
};
struct PendingSnapshot {
  SnapshotFn copy;
  Duration held{};  // time for which the server held new pushes
};

inline std::span<const float> Floats(const Buffer& buffer, int64_t numel) {
  return {reinterpret_cast<const float*>(buffer.get()), static_cast<size_t>(numel)};
}

}  // namespace tandem::pserver
