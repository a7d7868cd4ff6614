// The state machine of a parameter server, without network: pushes, pulls, completion of steps,
// waiting calls. It owns no thread, no socket and no clock. Waiting calls are callbacks with
// deadlines; the owner of the shard calls ExpireWaiters no later than NextDeadline().
//
// Sync mode gathers the gradients of a step, in any order and any number of messages. A step is
// complete when every trainer that has not completed has sent every slice and the rows of every
// table (possibly none). Then the gradients are added (those of slices as a tree over the ranks,
// ReduceTree), the optimizer runs once on each, and the version increases by one. Parameters of all
// slices change together. A trainer that is replaced within a step therefore finds the parameters
// of its predecessor.
//
// In a_sync mode, each push is applied immediately and increases the version by one.
//
// A push counts once: (trainer, incarnation, sequence) is recorded (sequence_window.h). A restarted
// trainer has a higher incarnation. From its first call on, calls of older incarnations are
// rejected, and their gradients for the step in progress are dropped.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "pserver/shard/delta_base.h"
#include "pserver/shard/job_settings_check.h"
#include "pserver/shard/named_barriers.h"
#include "pserver/shard/replay_queue.h"
#include "pserver/shard/trainer_registry.h"
#include "pserver/shard/wait_list.h"
#include "pserver/state/bucket_move.h"
#include "pserver/state/shard_types.h"
#include "pserver/state/wal.h"
#include "pserver/tables/shard_params.h"
#include "pserver/tables/table_metrics.h"

namespace tandem::pserver {

// The shard of one server. Thread-safe. A callback runs without any lock, on the thread of the call
// that made it ready (with a log: on the log's thread). Each callback runs exactly once, at the
// latest in Shutdown.
class Shard {
 public:
  // Backend and device of dense slices and their optimizer state.
  struct SlicePlace {
    const Backend* backend = nullptr;  // both null: as for rows. Must outlive the shard.
    Device* device = nullptr;
  };
  struct Options {
    uint64_t server_incarnation = 1;      // a new number at each start
    int index = 0;                        // server index in the job
    std::string job;                      // "": accepts the first job that configures it
    int trainers = 0;                     // 0: as configured by the first trainer
    uint64_t checkpoint_every_steps = 0;  // 0: no automatic checkpoints
    int checkpoint_deltas = 0;            // number of deltas after each full checkpoint
    // Called with the state after every checkpoint_every_steps updates; must not block for long.
    std::function<void(uint64_t version, SnapshotFn)> on_checkpoint;
    // Called while others wait for a trainer that has stopped calling.
    std::function<void(int trainer, Duration silent)> on_silent;
    // on_silent restarts the trainer: others wait for it until their deadline.
    bool replaces = false;
    // If not null, every change is logged before it is acknowledged. If null, changes after a
    // checkpoint are lost with the process. Must outlive the shard.
    WriteAheadLog* log = nullptr;
    // Stores the initial values, to which log entries apply; needed with a log. May take long: the
    // shard has its initial values when this returned OK, and serves other calls meanwhile.
    std::function<Status(const ShardSnapshot&)> keep_first;
    // Start state of a server that is not configured: "its data folder x was empty when it began".
    std::string found;
    // The log stores only the order of pushes; their senders keep the values until a checkpoint
    // contains them.
    bool replayable = false;
    uint64_t keep_bytes_max = uint64_t{1} << 30;  // per trainer
    // Called when a checkpoint is due (`replayable` only), with the lock held; must not block.
    std::function<void()> save_soon;
    ShardBug bug = ShardBug::kNone;
    // Memory for returned buffers; null or full: other memory is used.
    std::shared_ptr<Arena> arena = nullptr;
    SlicePlace slices = {};
    TableMemory table_memory = {};  // its store must outlive the shard
    // Threads that share the work of updates; null: only the caller's thread. Must outlive the
    // shard.
    ForkJoin* workers = nullptr;
  };
  template <typename T>
  using Done = std::function<void(StatusOr<T>)>;

  // All arguments except `options` must outlive the shard.
  Shard(Options options, const Clock& clock, const Backend& backend, Device& device,
        Metrics& metrics);
  ~Shard();

  // Idempotent. FAILED_PRECONDITION: the shard has another configuration, or active trainers have
  // other settings (the message names the difference).
  StatusOr<ConfigureResult> Configure(const Caller& caller, const ShardConfig& config,
                                      const Agreement& settings = {});

  // Sets initial values, sent by trainer 0. Returns true when every slice and table has its values.
  // Does nothing if the shard is already initialised. On an error, nothing changes. UNAVAILABLE:
  // keep_first is running.
  StatusOr<bool> InitParams(const Caller& caller, uint64_t version,
                            const std::vector<SliceValues>& params,
                            const std::vector<SlotValues>& slots,
                            const std::vector<RowValues>& rows = {});
  // `done` receives the version.
  void WaitInit(const Caller& caller, Time deadline, Done<uint64_t> done,
                const void* tag = nullptr);

  // Checks the caller: it must be of this job and of the current incarnation.
  Status Greet(const Caller& caller);

  // AdmitPush and Push handle a push in two parts, so that its values are copied only once, outside
  // the lock, to their destination. AdmitPush checks everything except the values and returns
  // memory for them. `in_place`: current location of the values of each slice, valid until Push
  // returns; or null. The values are not copied if they are not needed after the push (a_sync
  // without a log). Only f32 values stay in place, because any bit pattern is harmless except to
  // the parameters.
  StatusOr<PushTicket> AdmitPush(const PushHead& head, std::span<const void* const> in_place = {});
  // Applies or gathers the values in the ticket's buffers. REQUIRES: the ticket is from
  // AdmitPush(head). NaN and infinity are handled as configured: INVALID_ARGUMENT (the message
  // names trainer, step, variable and element), or without effect.
  StatusOr<PushOutcome> Push(const PushHead& head, PushTicket ticket);

  uint64_t pushes() const { return static_cast<uint64_t>(counters_.pushes.Value()); }

  void Pull(const PullQuery& query, Time deadline, Done<PullResult> done,
            const void* tag = nullptr);

  // `generation`: number of this use of `name`, from 1. A use that was already released gets a
  // reply immediately.
  void Barrier(const Caller& caller, const std::string& name, uint64_t generation, Time deadline,
               std::function<void(Status)> done, const void* tag = nullptr);
  // Ends the wait of the call with this tag (CANCELLED). Its caller has disconnected. Does nothing
  // if the call already has its reply.
  void Leave(const void* tag);

  // Returns the number of trainers that have not completed.
  StatusOr<int> Complete(const Caller& caller);

  // Calls `done` when all changes up to now are logged. No change may be acknowledged before that.
  // Without a log: immediately.
  void WhenLogged(WriteAheadLog::Written done);

  // Returns the version, and the optimizer slots of `variables` (empty: all).
  StatusOr<std::pair<uint64_t, std::vector<SlotValues>>> PullState(
      const std::string& job, const std::vector<std::string>& variables);

  // Rows of buckets [bucket, end) (SparseTable::Page). If `end` is not 0, all of these buckets must
  // be here.
  StatusOr<TablePage> PullTable(const std::string& job, const std::string& variable, int bucket,
                                bool slots, uint64_t bytes_max, int end = 0);

  // ---- Moves of buckets (shard_moves.cc) --------------------------------------------------------
  // Each call may be repeated if its reply was lost. Replies are durable after
  // DurableShard::WhenDurable.
  //
  // Freezes the buckets of `order`: their rows are neither read nor changed during the lease. Sync:
  // instead, accepts no pushes of the step. Returns a migration without moves before the step, and
  // on the target. ABORTED: the shard is already at the step. UNAVAILABLE: other buckets are
  // moving, or pushes are held for a global snapshot.
  StatusOr<BucketMigration> FreezeBuckets(const std::string& job, const FreezeRequest& order);
  // Stores the contents of the migration without serving them. A migration with a configuration
  // also configures a server that no trainer configures.
  Status OfferBuckets(const std::string& job, const BucketMigration& parcel);
  // Makes the target the owner of the frozen buckets. FAILED_PRECONDITION: the lease has ended.
  StatusOr<BucketMap> ReleaseBuckets(const std::string& job, const std::vector<BucketMove>& moves);
  // `refuse`: the server is leaving and accepts no more buckets; false: it stays.
  Status RefuseBuckets(const std::string& job, bool refuse);
  // Learns the moves in `known` and serves offered buckets that were released. `min_step`: progress
  // of the caller, as in PullQuery.
  StatusOr<MapAnswer> ExchangeMap(const Caller& caller, bool observer, const BucketMap& known,
                                  uint64_t min_step = 0);

  // ---- Global snapshots (shard_cut.cc), a_sync --------------------------------------------------
  // Holds new pushes until TakeCut, ReleasePushes or the end of the lease, and returns the accepted
  // pushes. A snapshot has one `taker` and a number above all earlier ones. UNAVAILABLE: rows are
  // moving, or pushes are held for another snapshot. FAILED_PRECONDITION: this snapshot is over, or
  // a trainer does not number its messages by push.
  StatusOr<PausedState> HoldPushes(const std::string& job, uint64_t cut, Duration lease,
                                   uint64_t taker = 0);
  void ReleasePushes(const std::string& job, uint64_t cut, uint64_t taker = 0);
  // Accepts the missing pushes of the snapshot, then passes the state to `done` and accepts new
  // pushes again. The state contains exactly the pushes of the snapshot. ABORTED: this is no longer
  // possible. DEADLINE_EXCEEDED: pushes are missing (the message names them). REQUIRES (else
  // ABORTED): pushes are held for this snapshot.
  void TakeCut(const std::string& job, SnapshotRequest order, Done<PendingSnapshot> done);
  void HasCut(uint64_t cut);  // the snapshot is on disk: later ones have higher numbers

  ShardInfo Info() const;
  // Returns the configured job, otherwise the job of the options, otherwise "". Never blocks.
  std::string Job() const;

  // Returns the state between two updates. Other calls continue meanwhile; they wait for one slice,
  // or for some row buckets, at a time. FAILED_PRECONDITION: not initialised. ABORTED: a Restore
  // happened meanwhile. `delta`: for tables, only changes since the last stored full snapshot;
  // FAILED_PRECONDITION: there is none.
  StatusOr<ShardSnapshot> Image(bool delta = false);
  // Reports that the snapshot is on the disk. Deltas build on a full one.
  void Kept(const ShardSnapshot& image);
  // Reports that the restored snapshot is the one on the disk. Deltas may follow it, because the
  // ages of rows tell which rows changed since.
  void GoOnBehind(const ShardSnapshot& image) { base_.GoOnBehind(image); }
  // Log numbers: last entry in the checkpoint (Kept), and last entry applied to the parameters.
  uint64_t kept_number() const { return kept_number_; }
  uint64_t settled_number() const;
  bool replayable() const { return options_.replayable; }
  // Replaces the whole state by the snapshot (shard_restore.h). Waiting calls receive ABORTED.
  Status Restore(const ShardSnapshot& image);
  // Re-applies a change after the last restored snapshot; before any other call. DATA_LOSS: it does
  // not fit. A push without values (LogEntry::Kind::kOrder) waits for them, and so do all entries
  // after it. Until then, trainers are told to retransmit their kept pushes (DATA_LOSS), or to wait
  // for other trainers (UNAVAILABLE).
  Status Replay(LogEntry entry);
  size_t owed() const;  // pushes whose values are missing

  // Fails the calls whose deadline has passed, and all waiting calls if a trainer they wait for is
  // lost.
  void ExpireWaiters();
  // Earliest time at which ExpireWaiters has work; Time::max(): no call waits.
  Time NextDeadline() const;

  // Fails all waiting and all later calls with UNAVAILABLE.
  void Shutdown();

 private:
  friend class ShardRestore;
  using Ready = ReadyAnswers;

  struct InitCall : WaitingCall {
    Done<uint64_t> done;
  };
  struct PullCall : WaitingCall {
    PullQuery query;
    Done<PullResult> done;
  };
  struct Counters {
    explicit Counters(Metrics& metrics);
    Counter &pushes, &push_bytes, &duplicates, &refused, &pulls, &pull_bytes, &updates;
    Counter &rejected, &skipped;  // for NaN and infinity
    Counter& lost_pushes;
    Gauge& owed;
    Histogram &barrier_wait, &pull_wait, &update_time, &staleness, &hold;
  };
  // A snapshot whose values may not all be copied yet (ShardSnapshotter).
  struct Cut {
    uint64_t number = 0;  // 0: it is complete
    ShardSnapshot image;
    ShardSnapshotter::Position copied;
  };
  struct Frozen {
    std::optional<FreezeRequest> order;  // null: none
    std::vector<BucketMove> moves;       // empty on the target
    Time until;
  };
  // A hold of new pushes until `until`. Pushes that belong to the ordered snapshot are accepted.
  struct Hold {
    uint64_t cut = 0;  // 0: none
    uint64_t taker = 0;
    Time since, until;
    std::optional<SnapshotRequest> order;
    Done<PendingSnapshot> done;  // set together with `order`
  };

  void Run(Ready ready);
  void Note(LogEntry::Kind kind, PushHead head, std::vector<Buffer> values) TD_REQUIRES(mu_);
  bool initialised() const TD_REQUIRES(mu_) {
    return params_ != nullptr && params_->progress().whole() && keeping_ == 0;
  }

  // ---- shard.cc ---------------------------------------------------------------------------------
  // Checks the caller and records that the trainer is alive.
  Status CheckCaller(const Caller& caller) TD_REQUIRES(mu_);
  Status AgreeOnSettings(const Caller& caller, const Agreement& settings) TD_REQUIRES(mu_);
  Status CheckOptions(const ShardConfig& config) const;
  StatusOr<std::unique_ptr<ShardParams>> MakeParams(const ShardConfig& config) const;
  Status SetUp(const ShardConfig& config) TD_REQUIRES(mu_);
  void SetConfig(const ShardConfig& config) TD_REQUIRES(mu_);
  void Adopt(const Caller& caller) TD_REQUIRES(mu_);
  StatusOr<bool> CheckPush(const PushHead& head) TD_REQUIRES(mu_);  // true: accepted before
  Status CheckStep(const PushHead& head) TD_REQUIRES(mu_);
  // Whether the step (sync) is complete with this push.
  bool CompletesStep(const PushHead& head) const TD_REQUIRES(mu_);
  // Copies values that the ticket does not own if the step waits for others. This may be necessary
  // only since the push was admitted.
  Status OwnIfItWaits(const PushHead& head, PushTicket& ticket) TD_REQUIRES(mu_);
  Status TakePush(const PushHead& head, PushTicket ticket, Ready& ready) TD_REQUIRES(mu_);
  void ApplyStepIfComplete(Ready& ready) TD_REQUIRES(mu_);
  void CompleteTrainer(int trainer, Ready& ready) TD_REQUIRES(mu_);
  void Updated(Time begin) TD_REQUIRES(mu_);
  void Advance(Ready& ready) TD_REQUIRES(mu_);
  void CheckpointNow(Ready& ready) TD_REQUIRES(mu_);
  void Settle() TD_REQUIRES(mu_);
  void Break(const Status& status, Ready& ready) TD_REQUIRES(mu_);

  // ---- shard_values.cc --------------------------------------------------------------------------
  // All initial values are here: stores them as snapshot `keeping_`, then replies to the calls that
  // wait for them. If they cannot be stored, the shard goes back to the values in `before`.
  Status KeepFirst(Cut cut, const std::vector<bool>& before);
  Status AddRows(const PullRows& rows, bool previous, PullResult& result) TD_REQUIRES(mu_);

  // ---- shard_treatment.cc -----------------------------------------------------------------------
  // Whether the push is skipped for NaN or infinity; updates the counters.
  StatusOr<bool> LookForNonfinite(const PushHead& head, const PushTicket& ticket);
  // The empty form of a skipped push, which still counts.
  PushHead Emptied(const PushHead& head, PushTicket& ticket) TD_REQUIRES(mu_);
  Status Compensate(const PushHead& head, PushTicket& ticket) TD_REQUIRES(mu_);
  Duration SilenceMax() const TD_REQUIRES(mu_);
  bool LosesTrainers() const TD_REQUIRES(mu_);  // whether unresponsive trainers are declared lost
  void LoseSilentTrainers(Time now, Ready& ready) TD_REQUIRES(mu_);

  // ---- shard_replay.cc --------------------------------------------------------------------------
  void NotePush(const PushHead& head, const PushTicket& ticket) TD_REQUIRES(mu_);
  bool IsOwed(const PushHead& head) const TD_REQUIRES(mu_);
  // Returns its number in the log.
  StatusOr<uint64_t> TakeOwed(const PushHead& head, PushTicket ticket) TD_REQUIRES(mu_);
  // OK if no values are missing.
  Status CheckOwed(const Caller& caller) TD_REQUIRES(mu_);
  Status Waits() const TD_REQUIRES(mu_);  // OK, or the trainers that must retransmit values
  Status RunOwed() TD_REQUIRES(mu_);
  Status MakeAgain(ReplayQueue::Change change) TD_REQUIRES(mu_);
  bool ForgetGone() TD_REQUIRES(mu_);  // drops lost parts if that is possible
  Status NotAgain(const Status& why) TD_REQUIRES(mu_);
  uint64_t LastNumber() const TD_REQUIRES(mu_);
  // Log number from which on a checkpoint contains the accepted pushes for `step`. Pushes still to
  // come do not raise it: the trainer that waits for a checkpoint (--keep_pushes_mb) may be the one
  // that has not pushed.
  uint64_t HoldsFrom(uint64_t step) const TD_REQUIRES(mu_);

  // ---- shard_moves.cc, shard_slice_moves.cc -----------------------------------------------------
  bool Serves(int bucket) const TD_REQUIRES(mu_);
  Status DropBucket(int bucket) TD_REQUIRES(mu_);
  // Removes data of a dropped bucket before it returns.
  void ForgetBucket(int bucket) TD_REQUIRES(mu_);
  Status CheckMovable(const std::string& job) const TD_REQUIRES(mu_);
  Status CheckFreeze(const FreezeRequest& order) const TD_REQUIRES(mu_);
  Status BeginMove(const FreezeRequest& order) TD_REQUIRES(mu_);
  void NoteMove(LogEntry::Kind kind, MoveRecord record) TD_REQUIRES(mu_);
  void Thaw() TD_REQUIRES(mu_);  // ends the freeze after its lease
  StatusOr<BucketMigration> MakeParcel() TD_REQUIRES(mu_);
  Status BeginWith(const BucketMigration& parcel) TD_REQUIRES(mu_);
  Status Offer(const std::string& job, const BucketMigration& parcel) TD_REQUIRES(mu_);
  Status TakeParcel(const BucketMigration& parcel) TD_REQUIRES(mu_);
  void TakeMark(const ServerPushState& mark, int source) TD_REQUIRES(mu_);
  StatusOr<BucketMap> Release(const std::string& job, const std::vector<BucketMove>& moves,
                              Ready& ready);
  void GiveAway(const MoveRecord& record) TD_REQUIRES(mu_);
  // Differs after each rollback, because earlier pulls may have newer versions.
  uint64_t Incarnation() const TD_REQUIRES(mu_) {
    return options_.server_incarnation + (rollbacks_ << 32);
  }
  Status CheckNews(const BucketMap& known) const TD_REQUIRES(mu_);
  StatusOr<MapAnswer> Learn(const BucketMap& known) TD_REQUIRES(mu_);
  void LearnMoves(const BucketMap& known) TD_REQUIRES(mu_);
  Status ReplayMove(const LogEntry& entry) TD_REQUIRES(mu_);
  Status CheckGeneration(const PushHead& head) const TD_REQUIRES(mu_);
  StatusOr<bool> TakenElsewhere(const PushHead& head) const TD_REQUIRES(mu_);
  void SlicesChanged() TD_REQUIRES(mu_);  // call after a change of the slices in params_
  Status TakeSlices(const BucketMigration& parcel) TD_REQUIRES(mu_);
  void SayWhichSlices(MapAnswer& answer) const TD_REQUIRES(mu_);
  StatusOr<int> FindRange(const PullRange& range) const TD_REQUIRES(mu_);  // only served slices

  // ---- shard_step_moves.cc (sync) ---------------------------------------------------------------
  bool sync() const TD_REQUIRES(mu_) { return config_.mode == ShardMode::kSync; }
  bool Idle() const TD_REQUIRES(mu_);       // steps change nothing on this server
  bool Held() const TD_REQUIRES(mu_);       // no pushes of the current step are accepted
  bool AtItsStep() const TD_REQUIRES(mu_);  // at the step before which the frozen buckets move
  Status CheckHeld(const PushHead& head) const TD_REQUIRES(mu_);
  Status CheckOfferStep(const BucketMigration& parcel) const TD_REQUIRES(mu_);
  void AddPrevious(const std::vector<int>& buckets, BucketMigration& parcel) const TD_REQUIRES(mu_);
  Status TakeStep(const BucketMigration& parcel, bool idle) TD_REQUIRES(mu_);
  void TakeBack() TD_REQUIRES(mu_);

  // ---- shard_cut.cc -----------------------------------------------------------------------------
  Status CheckCuttable(const std::string& job) const TD_REQUIRES(mu_);
  Status CheckHold(const PushHead& head) TD_REQUIRES(mu_);
  // OK: the state is that of the snapshot. UNAVAILABLE: pushes are still missing (the message names
  // them). ABORTED: the snapshot is impossible.
  Status CheckCut() const TD_REQUIRES(mu_);
  Status CheckCutOf(const SnapshotFrontier& mark) const TD_REQUIRES(mu_);
  void TryCut(Ready& ready) TD_REQUIRES(mu_);
  // Abandons an ordered snapshot with the reason `why`.
  void EndHold(const Status& why, Ready& ready) TD_REQUIRES(mu_);
  void ExpireHold(Time now, Ready& ready) TD_REQUIRES(mu_);

  // ---- shard_wait.cc ----------------------------------------------------------------------------
  bool CanAnswer(const PullQuery& query) const TD_REQUIRES(mu_);
  StatusOr<PullResult> MakePull(const PullQuery& query) TD_REQUIRES(mu_);
  void WakeWaiters(Ready& ready) TD_REQUIRES(mu_);
  void FailAllWaiters(const Status& status, Ready& ready) TD_REQUIRES(mu_);
  bool HasReplaced() const TD_REQUIRES(mu_);  // whether calls of restarted trainers wait
  void FailReplaced(Ready& ready) TD_REQUIRES(mu_);
  void FailGonePulls(Ready& ready) TD_REQUIRES(mu_);  // pulls of rows or slices that moved away
  std::vector<int> MissingAtStep() const TD_REQUIRES(mu_);
  void Hear(int trainer, uint64_t min_step, Ready& ready) TD_REQUIRES(mu_);
  bool HasNoRows() const TD_REQUIRES(mu_);  // gave all rows away; trainers push none here
  std::vector<int> Awaited() const TD_REQUIRES(mu_);
  Status InitDeadline(const InitCall& call, Time now) const TD_REQUIRES(mu_);
  Status PullDeadline(const PullCall& call, Time now) const TD_REQUIRES(mu_);
  // Trainers that others wait for.
  std::vector<int> SilentTrainers(Time now) const TD_REQUIRES(mu_);
  Status LostTrainer(Time now) const TD_REQUIRES(mu_);

  // ---- shard_checkpoint.cc ----------------------------------------------------------------------
  // A snapshot without slices and rows, but with the rows before the last update.
  ShardSnapshot ImageHead(bool delta) TD_REQUIRES(mu_);
  StatusOr<ShardSnapshot> MakeImage(bool delta) TD_REQUIRES(mu_);
  // Begins a snapshot of the current state. FinishSnapshot copies its values in chunks, each under
  // the lock. If another snapshot is in progress, the values are copied at once.
  StatusOr<Cut> BeginSnapshot(bool delta) TD_REQUIRES(mu_);
  StatusOr<bool> CopyChunk(Cut& cut) TD_REQUIRES(mu_);  // true: the snapshot is complete
  StatusOr<ShardSnapshot> FinishSnapshot(Cut& cut);
  void AbandonSnapshot(uint64_t number);
  SnapshotFn CopyOf(Cut cut);  // calls FinishSnapshot; if never called, AbandonSnapshot

  // ---- shard_restore.cc -------------------------------------------------------------------------
  Status Replace(const ShardSnapshot& head, std::unique_ptr<ShardParams> params);

  const Options options_;
  const Clock& clock_;
  const Backend& backend_;
  Device& device_;
  Metrics& metrics_;
  Counters counters_;
  DeltaBase base_;  // has its own lock: Kept may be called from keep_first

  mutable Mutex job_mu_;                    // held briefly, also while mu_ is held
  std::string job_ TD_GUARDED_BY(job_mu_);  // see Job
  mutable Mutex mu_;
  Status broken_ TD_GUARDED_BY(mu_);  // not OK: an update failed midway, or Shutdown was called
  ShardConfig config_ TD_GUARDED_BY(mu_);
  JobSettingsCheck agreed_ TD_GUARDED_BY(mu_);
  uint64_t keeping_ TD_GUARDED_BY(mu_) = 0;  // snapshot that keep_first is writing; 0: none
  bool restored_ TD_GUARDED_BY(mu_) = false;
  // restored, and no trainer has configured since
  bool may_treat_otherwise_ TD_GUARDED_BY(mu_) = false;
  std::unique_ptr<ShardParams> params_ TD_GUARDED_BY(mu_);  // null: not configured
  std::optional<TableMetrics> table_metrics_ TD_GUARDED_BY(mu_);
  MoveState moves_ TD_GUARDED_BY(mu_);
  Frozen frozen_ TD_GUARDED_BY(mu_);
  Hold hold_ TD_GUARDED_BY(mu_);
  uint64_t last_cut_ TD_GUARDED_BY(mu_) = 0;      // last one taken or abandoned
  bool has_previous_ TD_GUARDED_BY(mu_) = false;  // the previous version is available
  uint64_t version_ TD_GUARDED_BY(mu_) = 0;
  uint64_t rollbacks_ TD_GUARDED_BY(mu_) = 0;   // while it served
  UpdateTime update_ TD_GUARDED_BY(mu_);        // time of the update to version_
  uint64_t log_number_ TD_GUARDED_BY(mu_) = 0;  // last logged change
  // The last change that is applied to the parameters. Later changes, such as gradients of the step
  // in progress, are in no snapshot and must stay in the log.
  uint64_t settled_number_ TD_GUARDED_BY(mu_) = 0;
  bool replaying_ TD_GUARDED_BY(mu_) = false;
  ReplayQueue owed_ TD_GUARDED_BY(mu_);
  // By trainer: newest incarnation in the log.
  std::map<int, uint64_t> replayed_ TD_GUARDED_BY(mu_);
  bool waited_ TD_GUARDED_BY(mu_) = false;  // values were missing since the start
  // Sync: by trainer, the step for which its pushes are lost. Nothing follows after them.
  std::map<int, uint64_t> gone_ TD_GUARDED_BY(mu_);
  std::atomic<uint64_t> kept_number_ = 0;
  bool cutting_ TD_GUARDED_BY(mu_) = false;                            // a snapshot is in progress
  uint64_t cuts_ TD_GUARDED_BY(mu_) = 0;                               // its number
  std::optional<std::pair<int, float>> step_rate_ TD_GUARDED_BY(mu_);  // trainer, learning rate
  TrainerRegistry trainers_ TD_GUARDED_BY(mu_);
  // Time of the last on_silent (`replaces` only).
  Time silent_told_ TD_GUARDED_BY(mu_) = Time::min();
  WaitList<InitCall> init_calls_ TD_GUARDED_BY(mu_);
  WaitList<PullCall> pull_calls_ TD_GUARDED_BY(mu_);
  NamedBarriers barriers_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::pserver
