// What goes in and out of a shard, without any wire format: the gRPC glue (service.cc), the storage
// and the tests all speak these.
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
#include "pserver/state/sequence_window.h"

namespace tandem {

struct MoveState;  // move_state.h

enum class ShardMode : uint8_t { kSync, kASync };
const char* Name(ShardMode mode);  // "sync", "a_sync"

// What becomes of a push with NaN or infinity.
enum class NonfinitePolicy : uint8_t {
  kReject,  // refused, naming the first
  kSkip,    // taken, but without effect: in sync mode its gradients are zeros
  kApply    // nobody looks
};
const char* Name(NonfinitePolicy policy);  // "reject", "skip", "apply"

// Elements [offset, offset + numel) of a flattened f32 variable.
struct SliceSpec {
  std::string variable;
  Shape shape;  // of the whole variable
  int64_t offset = 0, numel = 0;
  int bucket = 0;  // kRowBuckets or more: what it is called in moves; 0: it does not move
  friend bool operator==(const SliceSpec& a, const SliceSpec& b) {  // the same elements
    return std::tie(a.variable, a.shape, a.offset, a.numel) ==
           std::tie(b.variable, b.shape, b.offset, b.numel);
  }
};

// The rows of a table [height, dim] in buckets [bucket_begin, bucket_end)
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

// What all trainers of a job must agree on.
struct ShardConfig {
  std::string job;
  int trainers = 0;
  ShardMode mode = ShardMode::kSync;
  OptimizerSpec optimizer;
  std::vector<SliceSpec> slices;
  Duration step_timeout = std::chrono::seconds(60);
  std::vector<TableSpec> tables;
  NonfinitePolicy nonfinite = NonfinitePolicy::kReject;
  // A trainer silent for so long is lost, whether others wait for it or not: in a_sync mode nobody
  // waits for it any more until it calls again.
  Duration lost_after = std::chrono::seconds(900);
  // a_sync: gradients g of slices become g + this * g * g * (w - w pulled last by their trainer).
  float delay_compensation = 0;
};

// INVALID_ARGUMENT naming what is wrong: names, ranges, overlaps, limits.
Status CheckConfig(const ShardConfig& config);
// OK, or FAILED_PRECONDITION: a call for another job than the one that is served.
Status CheckJob(const std::string& job, const std::string& served);
// "" when equal; else the first difference, in words: "mode is a_sync, was sync".
std::string Difference(const ShardConfig& now, const ShardConfig& before);
// Takes over what says how pushes and trainers are treated, and nothing of what is kept.
void CopyFaultPolicy(const ShardConfig& from, ShardConfig& config);

// Mistakes on purpose, for tests that must notice them.
enum class ShardBug : uint8_t {
  kNone,
  kNoDedup,           // a push that was taken before is taken again
  kMarksNotKept,      // the log brings back the updates, but not the numbers of their pushes
  kAnswersEarly,      // answers do not wait until what they tell of is written
  kLogCutShort,       // a checkpoint drops entries of the log that it does not hold
  kOldRowsTaken,      // pushes from before buckets were given away are taken when they are back
  kMarksStay,         // buckets come without the marks of the pushes behind them
  kOwnsTooSoon,       // buckets that are offered are served before they are released
  kMovesWithinAStep,  // sync: pushes are taken while buckets are on their way
  kPreviousStays,     // sync: buckets come without the weights before the last step
  kNeverTakesBack,    // sync: targets do not hear of moves that came to nothing
  kNeverAsks,         // pushes of which the log has the order alone are forgotten at a start
  kCutsEarly,         // a cut does not wait for what belongs to it and has not come
  kHoldsNothing,      // new pushes are taken although they are to be held for a cut
  kCopiesLate,        // an image has what came while nobody had copied it yet
};

// Who calls.
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

// Values of one slice, f32.
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

// What is counted of a row (RowUse of row_store.h), and versions since the last gradient.
struct RowAge {
  float show = 1;
  uint32_t age = 0;
  float click = 0;
  bool brief = false;  // it has its first value alone, and of each slot the first
};
// A row that is not admitted yet: versions with a gradient for it, and since the last of them.
struct WaitingRow {
  uint64_t id = 0;
  uint32_t seen = 0, age = 0;
  friend bool operator==(const WaitingRow&, const WaitingRow&) = default;
};

// Rows of a table with their slots: what InitParams brings and PullTable gives.
struct RowValues {
  std::string variable;
  std::vector<uint64_t> ids;
  std::vector<float> content;  // of each row its values, then its slots; shorter where it is brief
  bool last = false;
  std::vector<RowAge> use;  // of each row, or empty: as of rows that are touched now
  std::vector<WaitingRow> waiting;
};
struct TablePage {
  uint64_t version = 0;
  RowValues rows;
  std::vector<std::string> slots;  // names of those in the rows
  std::vector<float> slot_start;
  int next_bucket = 0;
};

// PushRequest's of proto/pserver.proto: by server, numbers of messages of one trainer.
struct SentNumbers {
  std::vector<uint64_t> sent;   // the newest ones
  std::vector<uint64_t> ended;  // up to which pushes have ended with all their messages
  // Of those told so far the highest.
  void Raise(const SentNumbers& other);
  static uint64_t At(const std::vector<uint64_t>& numbers, int server);  // 0: nothing is known
};

// A push without its values. The gradient of a table is two slices with its name: the row ids, i64
// [n], ascending, and right behind f32 [n, dim].
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
  // PushRequest's of proto/pserver.proto: by what the sender chose the rows, and where it sent them
  // before (its index + 1; 0: nowhere).
  uint64_t generation = 0;
  int origin_server = 0;
  uint64_t origin_sequence = 0;
  SentNumbers numbers = {};
  bool finite = false;  // the sender has looked
};
// Where the values of an admitted push go, in the order of PushHead::slices.
struct PushTicket {
  bool duplicate = false;  // nothing to copy: the push was taken before
  NonfinitePolicy nonfinite = NonfinitePolicy::kReject;
  std::vector<int> slices;  // tables count on behind the slices; both halves have the number
  std::vector<Buffer> buffers;
  bool owed = false;     // its values are waited for (shard_replay.cc)
  bool skipped = false;  // NonfinitePolicy::kSkip
};
// When a shard changed its parameters; at first Time().
struct UpdateTime {
  Time begin, end;
};

struct PushOutcome {
  uint64_t version = 0;
  bool duplicate = false;
  UpdateTime update;  // the newest one
  // PushReply's of proto/pserver.proto.
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
  bool observer = false;  // caller is not a trainer
  uint64_t min_version = 0;
  std::vector<PullRange> ranges;       // empty, with no rows: all slices
  uint64_t min_step = 0;               // a_sync: steps that the slowest trainer must have pushed
  std::optional<uint64_t> at_version;  // sync: this one alone; it or the next is the present one
  std::vector<PullRows> rows;
};
// Shared, never changing memory: it may be sent without a copy.
struct PulledSlice {
  std::string variable;
  int64_t offset = 0, numel = 0;
  Buffer values;     // of the whole slice
  size_t first = 0;  // element of `values` where the range begins
  int64_t dim = 0;   // 0: of a slice; else numel / dim rows of a table
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
  uint64_t skipped = 0;      // of `pushes`: NonfinitePolicy::kSkip
  uint64_t lost_pushes = 0;  // whose values are gone (shard_replay.cc), since the job began
  double silent_seconds = 0;
  double waited_seconds = 0;   // its calls, for other trainers, since the server started
  double waited_recently = 0;  // of those, in the last minute
};
struct TableInfo {
  std::string variable;
  size_t rows = 0, bytes = 0;
  size_t waiting = 0;  // rows that are not admitted yet
  // Since the server started:
  uint64_t dropped = 0;  // gradients of rows that were not admitted
  uint64_t removed = 0;  // rows
  size_t extended = 0;   // of `rows`: those that have all their values (row_accessor.h)
  // With rows outside memory (row_tiers.h); the last three since the table was made:
  size_t cold_rows = 0;     // of `rows`
  uint64_t fetched = 0;     // rows that came in
  uint64_t written = 0;     // rows that were written to go out
  double read_seconds = 0;  // waited for rows
};
struct ShardInfo {
  bool configured = false, initialised = false;
  ShardConfig config;  // empty unless configured
  uint64_t version = 0;
  std::vector<TrainerInfo> trainers;
  std::vector<TableInfo> tables;
  size_t buckets = 0;        // of rows, that it serves
  uint64_t map_version = 0;  // of the moves that it knows of (BucketMap); 0: nothing moved
  uint64_t last_cut = 0;     // the highest number of a cut that was taken, given up or begun here
};

// ---- Checkpoints --------------------------------------------------------------------------------

struct TrainerPushState {
  int trainer = 0;
  uint64_t incarnation = 0;
  bool completed = false;
  SequenceWindow applied;
  uint64_t lost_pushes = 0;  // TrainerInfo's
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
  Buffer previous = nullptr;  // ShardSnapshot::has_previous
};
// The rows of a table by bucket, each as a RowValues; and its slots of one number.
struct TableSnapshot {
  std::vector<std::pair<int, RowValues>> buckets;
  std::vector<std::pair<std::string, float>> scalars;
  RowValues previous = {};  // weights alone, of the rows that the last update changed or removed
  bool partial = false;     // of ShardSnapshot::base: rows that changed alone
};
// The whole state of a shard between two updates. Memory is shared and never changes.
struct ShardSnapshot {
  ShardConfig config;
  uint64_t version = 0;
  uint64_t log_number = 0;  // the last entry of the log (wal.h) that is in here
  std::vector<TrainerPushState> marks;
  std::vector<SliceSnapshot> slices;  // in the order of config.slices
  std::vector<TableSnapshot> tables;  // in the order of config.tables
  // Sync mode with a log: with the parameters before the last update, for a trainer that takes
  // another one's place while servers are a step apart.
  bool has_previous = false;
  std::shared_ptr<const MoveState> moves = nullptr;  // of buckets; null: nothing moved
  uint64_t order = 0;  // counts the images of a shard's life; not kept
  // A delta: tables may hold only what changed since the whole image of this version.
  std::optional<uint64_t> base = {};
  // As Storage::Read gives it: the version of the whole image on which deltas may build.
  std::optional<uint64_t> whole = {};
  size_t bytes() const;
};

// Copies the state of the moment at which this was made, while others go on; once, from any thread
// that may be busy for some time. Fails as Shard::Image does. Dropped without a call: the state is
// not needed. Must not outlive the shard.
using SnapshotFn = std::function<StatusOr<ShardSnapshot>()>;

// ---- Cuts over all servers (shard_cut.cc)
// --------------------------------------------------------

// Which pushes of a trainer belong to a cut.
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
  uint64_t map_version = 0;  // of BucketMap, as PausedState said
  Duration lease{};          // to wait for what has not come
  uint64_t taker = 0;        // who takes it (HoldPushesRequest.taker)
};
// A cut on the disk of a server.
struct KeptCut {
  uint64_t number = 0, version = 0;
  friend bool operator==(const KeptCut&, const KeptCut&) = default;
};
struct PendingSnapshot {
  SnapshotFn copy;
  Duration held{};  // so long no new pushes were taken
};

inline std::span<const float> Floats(const Buffer& buffer, int64_t numel) {
  return {reinterpret_cast<const float*>(buffer.get()), static_cast<size_t>(numel)};
}

}  // namespace tandem
