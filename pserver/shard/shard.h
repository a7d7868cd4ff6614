// A parameter server without its network: who pushes and pulls what, when a step is complete, who
// waits for whom. It owns no thread, no socket and no clock. Waiting is a list of callbacks with
// deadlines; whoever drives the shard calls ExpireWaiters no later than NextDeadline().
//
// Sync mode. A step is gathered: gradients may come in any order and in any number of messages.
// When every trainer that has not completed gave every slice and every table's rows (there may be
// none), they are added, gradients of slices as a tree over the ranks (ReduceTree), the optimizer
// runs once on each, and the version goes up by one. Parameters change for all slices together, so
// a trainer that is replaced within a step finds the parameters its predecessor had.
// a_sync mode. Each push is applied at once and raises the version by one.
//
// A push counts once: (trainer, incarnation, sequence) is remembered (sequence_window.h). A trainer
// that was started again has a higher incarnation; from then on calls of the older one are refused,
// and what the older one gave to the step in progress is forgotten.
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

namespace tandem {

// Thread-safe. Callbacks are called without any lock held, on the thread whose call made them
// ready (with a log: on the log's); each is called exactly once, at the latest by Shutdown.
class Shard {
 public:
  // Where dense slices and their optimizers' state lie, and are updated.
  struct SlicePlace {
    const Backend* backend = nullptr;  // both null: where rows do. Must outlive the shard.
    Device* device = nullptr;
  };
  struct Options {
    uint64_t server_incarnation = 1;      // a new number at each start
    int index = 0;                        // which server of the job
    std::string job;                      // "": takes the first that comes
    int trainers = 0;                     // 0: as the first trainer says
    uint64_t checkpoint_every_steps = 0;  // 0: never by itself
    int checkpoint_deltas = 0;            // of these, deltas behind each whole one
    // Called with the state after each checkpoint_every_steps updates; must not block for long.
    std::function<void(uint64_t version, SnapshotFn)> on_checkpoint;
    // Told of a trainer that calls no more while others wait for it, as long as they do.
    std::function<void(int trainer, Duration silent)> on_silent;
    bool replaces =
        false;  // that starts the trainer again: others wait for it until their deadline
    // Null: what comes after a checkpoint is lost with the process. Else every change is noted
    // there, and nobody is told of it before it is written. Must outlive the shard.
    WriteAheadLog* log = nullptr;
    // With a log: keeps the first values, from which it counts. May take its time: the shard has
    // its first values once this returned OK, and answers others meanwhile.
    std::function<Status(const ShardSnapshot&)> keep_first;
    // How a server that is not configured began: "its data folder x was empty when it began".
    std::string found;
    // The log has of pushes their order alone, and whoever sent them keeps the values until a
    // checkpoint holds them.
    bool replayable = false;
    uint64_t keep_bytes_max = uint64_t{1} << 30;  // of each trainer
    // With `replayable`: time for a checkpoint. Called with the lock held; must not block.
    std::function<void()> save_soon;
    ShardBug bug = ShardBug::kNone;
    // Where to have what is given out; null, or full: elsewhere.
    std::shared_ptr<Arena> arena = nullptr;
    SlicePlace slices = {};
    TableMemory table_memory = {};  // its store must outlive the shard
    // Threads that share the work of updates; null: the caller's alone. Must outlive the shard.
    ForkJoin* workers = nullptr;
  };
  template <typename T>
  using Done = std::function<void(StatusOr<T>)>;

  // All but `options` must outlive the shard.
  Shard(Options options, const Clock& clock, const Backend& backend, Device& device,
        Metrics& metrics);
  ~Shard();

  // Idempotent. FAILED_PRECONDITION naming the difference when another configuration is there, or
  // trainers with other settings are.
  StatusOr<ConfigureResult> Configure(const Caller& caller, const ShardConfig& config,
                                      const Agreement& settings = {});

  // First values, from trainer 0; true once every slice and table has its values. Does nothing when
  // the shard is initialised already. All or nothing. UNAVAILABLE while keep_first is at work.
  StatusOr<bool> InitParams(const Caller& caller, uint64_t version,
                            const std::vector<SliceValues>& params,
                            const std::vector<SlotValues>& slots,
                            const std::vector<RowValues>& rows = {});
  // `done` gets the version.
  void WaitInit(const Caller& caller, Time deadline, Done<uint64_t> done,
                const void* tag = nullptr);

  // OK when `caller` may call: it is of this job, and was not replaced.
  Status Greet(const Caller& caller);

  // A push has two halves, so that values are copied once, outside the lock, to where they stay.
  // AdmitPush checks everything but the values and gives memory for them. `in_place`: where the
  // values of each slice are already, until Push returns; or null. They stay there where nobody
  // needs them for longer (a_sync without a log); only f32, for which any bits do no harm but to
  // the parameters.
  StatusOr<PushTicket> AdmitPush(const PushHead& head, std::span<const void* const> in_place = {});
  // Takes the values now in the ticket's buffers. REQUIRES: the ticket came from AdmitPush(head).
  // NaN and infinity are treated as the configuration says: INVALID_ARGUMENT naming trainer, step,
  // variable and element, or without effect.
  StatusOr<PushOutcome> Push(const PushHead& head, PushTicket ticket);

  uint64_t pushes() const { return static_cast<uint64_t>(counters_.pushes.Value()); }

  void Pull(const PullQuery& query, Time deadline, Done<PullResult> done,
            const void* tag = nullptr);

  // `generation` counts the uses of `name` from 1; generations already released are answered at
  // once.
  void Barrier(const Caller& caller, const std::string& name, uint64_t generation, Time deadline,
               std::function<void(Status)> done, const void* tag = nullptr);
  // The caller of the call with this tag is gone: it waits no more (CANCELLED). Nothing happens
  // where the call has its answer.
  void Leave(const void* tag);

  // The number of trainers that have not completed.
  StatusOr<int> Complete(const Caller& caller);

  // Calls `done` when everything that was changed up to now is written: before that nobody may be
  // told of it. At once where there is no log.
  void WhenLogged(WriteAheadLog::Written done);

  // Optimizer slots of `variables` (empty: all), and the version.
  StatusOr<std::pair<uint64_t, std::vector<SlotValues>>> PullState(
      const std::string& job, const std::vector<std::string>& variables);

  // Rows from bucket `bucket` to `end` (SparseTable::Page); of which, unless it is 0, all are here.
  StatusOr<TablePage> PullTable(const std::string& job, const std::string& variable, int bucket,
                                bool slots, uint64_t bytes_max, int end = 0);

  // ---- Moves of buckets (shard_moves.cc). Each may be called again when its answer was lost. What
  // it tells of is durable once DurableShard::WhenDurable says so.
  // Neither gives out nor changes the rows of `order.buckets` for its lease. Sync: takes no pushes
  // of the step instead, and gives a parcel without moves before it is there, and where it is the
  // target; ABORTED when it is there already. UNAVAILABLE while others are on their way.
  StatusOr<BucketMigration> FreezeBuckets(const std::string& job, const FreezeRequest& order);
  // Keeps what is in the parcel, without serving it. With a configuration in it a server that is
  // not configured becomes one of the job: nobody else configures it.
  Status OfferBuckets(const std::string& job, const BucketMigration& parcel);
  // From now on the frozen buckets are the target's. FAILED_PRECONDITION when the lease is over.
  StatusOr<BucketMap> ReleaseBuckets(const std::string& job, const std::vector<BucketMove>& moves);
  // This server is leaving: it takes no more buckets. Or it stays.
  Status RefuseBuckets(const std::string& job, bool refuse);
  // Takes up what somebody else knows; serves what was offered once it was released. `min_step`:
  // as in PullQuery, it says how far the caller is.
  StatusOr<MapAnswer> ExchangeMap(const Caller& caller, bool observer, const BucketMap& known,
                                  uint64_t min_step = 0);

  // ---- A cut over all servers (shard_cut.cc), a_sync.
  // Takes no new pushes until TakeCut, ReleasePushes or the end of the lease, and says which ones
  // it took. UNAVAILABLE while rows are on their way, or for another cut; FAILED_PRECONDITION when
  // this cut is over, or when a trainer does not say which of its messages belong together.
  // A cut has a number above all that were, and one `taker`.
  StatusOr<PausedState> HoldPushes(const std::string& job, uint64_t cut, Duration lease,
                                   uint64_t taker = 0);
  void ReleasePushes(const std::string& job, uint64_t cut, uint64_t taker = 0);
  // Takes what belongs to the cut and has not come yet; then `done` gets the state, which has of
  // each trainer those pushes and no others, and new pushes are taken again. ABORTED when that
  // cannot be any more; DEADLINE_EXCEEDED naming what has not come. REQUIRES (else ABORTED): pushes
  // are held for it.
  void TakeCut(const std::string& job, SnapshotRequest order, Done<PendingSnapshot> done);
  void HasCut(uint64_t cut);  // on its disk: newer ones have higher numbers

  ShardInfo Info() const;
  std::string Job() const;  // as configured, else as the options say, else ""; waits for nothing

  // The state between two updates. Others go on meanwhile: they wait for one slice, or for some
  // buckets of rows, at a time. FAILED_PRECONDITION unless initialised; ABORTED when Restore comes
  // between. `delta`: of tables what changed since the last whole image that was kept;
  // FAILED_PRECONDITION when there is none.
  StatusOr<ShardSnapshot> Image(bool delta = false);
  // This image is on the disk. A whole one is where deltas find it.
  void Kept(const ShardSnapshot& image);
  // This image, which was restored, is the one on the disk: deltas go on behind it, for the ages of
  // rows tell what changed since.
  void GoOnBehind(const ShardSnapshot& image) { base_.GoOnBehind(image); }
  // Of the log: up to where Kept told, and up to where the parameters are.
  uint64_t kept_number() const { return kept_number_; }
  uint64_t settled_number() const;
  bool replayable() const { return options_.replayable; }
  // Replaces everything by the image (shard_restore.h). Those who wait are told ABORTED.
  Status Restore(const ShardSnapshot& image);
  // Makes a change again that came behind the image restored last; before anybody calls. DATA_LOSS
  // when it does not fit. Of a push whose values are not here (LogEntry::Kind::kOrder) it waits for
  // them, and all that is behind waits too: until then trainers are asked to send again what they
  // keep (DATA_LOSS), or to wait for those who have not (UNAVAILABLE).
  Status Replay(LogEntry entry);
  size_t owed() const;  // pushes whose values are waited for

  // Answers those whose deadline has passed, and everybody when a trainer they wait for is lost.
  void ExpireWaiters();
  // When ExpireWaiters has something to do at the earliest; Time::max() when nobody waits.
  Time NextDeadline() const;

  // Tells everybody who waits UNAVAILABLE, and all later calls too.
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
  // An image that may still lack its values (DenseTable::BeginSnapshot,
  // SparseTable::BeginSnapshot).
  struct Cut {
    uint64_t number = 0;  // 0: it is whole
    ShardSnapshot image;
    ShardParams::CutPlace copied;
  };
  struct Frozen {
    std::optional<FreezeRequest> order;  // null: none
    std::vector<BucketMove> moves;       // empty at the target
    Time until;
  };
  // No new pushes are taken until then, but those of the cut that is ordered.
  struct Hold {
    uint64_t cut = 0;  // 0: none
    uint64_t taker = 0;
    Time since, until;
    std::optional<SnapshotRequest> order;
    Done<PendingSnapshot> done;  // with an order
  };

  void Run(Ready ready);
  void Note(LogEntry::Kind kind, PushHead head, std::vector<Buffer> values) TD_REQUIRES(mu_);
  bool initialised() const TD_REQUIRES(mu_) {
    return params_ != nullptr && params_->whole() && keeping_ == 0;
  }

  // shard.cc
  Status CheckCaller(const Caller& caller) TD_REQUIRES(mu_);  // and notes that it lives
  Status AgreeOnSettings(const Caller& caller, const Agreement& settings) TD_REQUIRES(mu_);
  Status CheckOptions(const ShardConfig& config) const;
  StatusOr<std::unique_ptr<ShardParams>> MakeParams(const ShardConfig& config) const;
  Status SetUp(const ShardConfig& config) TD_REQUIRES(mu_);
  void SetConfig(const ShardConfig& config) TD_REQUIRES(mu_);
  void Adopt(const Caller& caller) TD_REQUIRES(mu_);
  StatusOr<bool> CheckPush(const PushHead& head) TD_REQUIRES(mu_);  // true: taken before
  Status CheckStep(const PushHead& head) TD_REQUIRES(mu_);
  // Whether nothing of a step (sync) is missing behind this push.
  bool CompletesStep(const PushHead& head) const TD_REQUIRES(mu_);
  // Copies what is not the ticket's own where the step waits for others, as it may have come to
  // since the push was admitted.
  Status OwnIfItWaits(const PushHead& head, PushTicket& ticket) TD_REQUIRES(mu_);
  Status TakePush(const PushHead& head, PushTicket ticket, Ready& ready) TD_REQUIRES(mu_);
  void ApplyStepIfComplete(Ready& ready) TD_REQUIRES(mu_);
  void CompleteTrainer(int trainer, Ready& ready) TD_REQUIRES(mu_);
  void Updated(Time begin) TD_REQUIRES(mu_);
  void Advance(Ready& ready) TD_REQUIRES(mu_);
  void CheckpointNow(Ready& ready) TD_REQUIRES(mu_);
  void Settle() TD_REQUIRES(mu_);
  void Break(const Status& status, Ready& ready) TD_REQUIRES(mu_);

  // shard_values.cc
  // The first values are there: has them kept, which is cut `keeping_`. Then whoever waits for them
  // gets them. When they cannot be kept those of `before` alone are there.
  Status KeepFirst(Cut cut, const std::vector<bool>& before);
  Status AddRows(const PullRows& rows, bool previous, PullResult& result) TD_REQUIRES(mu_);

  // shard_treatment.cc
  // Whether the push is to be skipped; counts what is found.
  StatusOr<bool> LookForNonfinite(const PushHead& head, const PushTicket& ticket);
  // What is taken of a push that is skipped: it counts, without anything in it.
  PushHead Emptied(const PushHead& head, PushTicket& ticket) TD_REQUIRES(mu_);
  Status Compensate(const PushHead& head, PushTicket& ticket) TD_REQUIRES(mu_);
  Duration SilenceMax() const TD_REQUIRES(mu_);
  bool LosesTrainers() const TD_REQUIRES(mu_);  // that are silent
  void LoseSilentTrainers(Time now, Ready& ready) TD_REQUIRES(mu_);

  // shard_replay.cc
  void NotePush(const PushHead& head, const PushTicket& ticket) TD_REQUIRES(mu_);
  bool IsOwed(const PushHead& head) const TD_REQUIRES(mu_);
  // Its number in the log.
  StatusOr<uint64_t> TakeOwed(const PushHead& head, PushTicket ticket) TD_REQUIRES(mu_);
  // OK when nothing is waited for any more.
  Status CheckOwed(const Caller& caller) TD_REQUIRES(mu_);
  Status Waits() const TD_REQUIRES(mu_);  // OK, or for whom
  Status RunOwed() TD_REQUIRES(mu_);
  Status MakeAgain(ReplayQueue::Change change) TD_REQUIRES(mu_);
  bool ForgetGone() TD_REQUIRES(mu_);  // what is gone, if that can be
  Status NotAgain(const Status& why) TD_REQUIRES(mu_);
  uint64_t LastNumber() const TD_REQUIRES(mu_);
  // A number in the log from which on checkpoints hold a push for `step` that was taken. None that
  // is to come delays them: whoever waits for one (--keep_pushes_mb) may be who does not push.
  uint64_t HoldsFrom(uint64_t step) const TD_REQUIRES(mu_);

  // shard_moves.cc, shard_slice_moves.cc
  bool Serves(int bucket) const TD_REQUIRES(mu_);
  Status DropBucket(int bucket) TD_REQUIRES(mu_);
  void ForgetBucket(int bucket) TD_REQUIRES(mu_);  // which was dropped before it comes again
  Status CheckMovable(const std::string& job) const TD_REQUIRES(mu_);
  Status CheckFreeze(const FreezeRequest& order) const TD_REQUIRES(mu_);
  Status BeginMove(const FreezeRequest& order) TD_REQUIRES(mu_);
  void NoteMove(LogEntry::Kind kind, MoveRecord record) TD_REQUIRES(mu_);
  void Thaw() TD_REQUIRES(mu_);  // when the lease is over
  StatusOr<BucketMigration> MakeParcel() TD_REQUIRES(mu_);
  Status BeginWith(const BucketMigration& parcel) TD_REQUIRES(mu_);
  Status Offer(const std::string& job, const BucketMigration& parcel) TD_REQUIRES(mu_);
  Status TakeParcel(const BucketMigration& parcel) TD_REQUIRES(mu_);
  void TakeMark(const ServerPushState& mark, int source) TD_REQUIRES(mu_);
  StatusOr<BucketMap> Release(const std::string& job, const std::vector<BucketMove>& moves,
                              Ready& ready);
  void GiveAway(const MoveRecord& record) TD_REQUIRES(mu_);
  // Another one behind each rollback: what was pulled before may be of newer versions.
  uint64_t Incarnation() const TD_REQUIRES(mu_) {
    return options_.server_incarnation + (rollbacks_ << 32);
  }
  Status CheckNews(const BucketMap& known) const TD_REQUIRES(mu_);
  StatusOr<MapAnswer> Learn(const BucketMap& known) TD_REQUIRES(mu_);
  void LearnMoves(const BucketMap& known) TD_REQUIRES(mu_);
  Status ReplayMove(const LogEntry& entry) TD_REQUIRES(mu_);
  Status CheckGeneration(const PushHead& head) const TD_REQUIRES(mu_);
  StatusOr<bool> TakenElsewhere(const PushHead& head) const TD_REQUIRES(mu_);
  void SlicesChanged() TD_REQUIRES(mu_);  // in params_
  Status TakeSlices(const BucketMigration& parcel) TD_REQUIRES(mu_);
  void SayWhichSlices(MapAnswer& answer) const TD_REQUIRES(mu_);
  StatusOr<int> FindRange(const PullRange& range) const TD_REQUIRES(mu_);  // that is served

  // shard_step_moves.cc: sync
  bool sync() const TD_REQUIRES(mu_) { return config_.mode == ShardMode::kSync; }
  bool Idle() const TD_REQUIRES(mu_);       // it has nothing that steps change
  bool Held() const TD_REQUIRES(mu_);       // no pushes of the present step are taken
  bool AtItsStep() const TD_REQUIRES(mu_);  // before which what is frozen is to move
  Status CheckHeld(const PushHead& head) const TD_REQUIRES(mu_);
  Status CheckOfferStep(const BucketMigration& parcel) const TD_REQUIRES(mu_);
  void AddPrevious(const std::vector<int>& buckets, BucketMigration& parcel) const TD_REQUIRES(mu_);
  Status TakeStep(const BucketMigration& parcel, bool idle) TD_REQUIRES(mu_);
  void TakeBack() TD_REQUIRES(mu_);

  // shard_cut.cc
  Status CheckCuttable(const std::string& job) const TD_REQUIRES(mu_);
  Status CheckHold(const PushHead& head) TD_REQUIRES(mu_);
  // OK: the state is the cut. UNAVAILABLE: not yet, says what has not come. ABORTED: never.
  Status CheckCut() const TD_REQUIRES(mu_);
  Status CheckCutOf(const SnapshotFrontier& mark) const TD_REQUIRES(mu_);
  void TryCut(Ready& ready) TD_REQUIRES(mu_);
  // With an order, which is given up: tells why.
  void EndHold(const Status& why, Ready& ready) TD_REQUIRES(mu_);
  void ExpireHold(Time now, Ready& ready) TD_REQUIRES(mu_);

  // shard_wait.cc
  bool CanAnswer(const PullQuery& query) const TD_REQUIRES(mu_);
  StatusOr<PullResult> MakePull(const PullQuery& query) TD_REQUIRES(mu_);
  void WakeWaiters(Ready& ready) TD_REQUIRES(mu_);
  void FailAllWaiters(const Status& status, Ready& ready) TD_REQUIRES(mu_);
  bool HasReplaced() const TD_REQUIRES(mu_);  // calls of trainers that were started again
  void FailReplaced(Ready& ready) TD_REQUIRES(mu_);
  void FailGonePulls(Ready& ready) TD_REQUIRES(mu_);  // of what is here no more
  std::vector<int> MissingAtStep() const TD_REQUIRES(mu_);
  void Hear(int trainer, uint64_t min_step, Ready& ready) TD_REQUIRES(mu_);
  bool HasNoRows() const TD_REQUIRES(mu_);  // any more; trainers push none here
  std::vector<int> Awaited() const TD_REQUIRES(mu_);
  Status InitDeadline(const InitCall& call, Time now) const TD_REQUIRES(mu_);
  Status PullDeadline(const PullCall& call, Time now) const TD_REQUIRES(mu_);
  std::vector<int> SilentTrainers(Time now) const TD_REQUIRES(mu_);  // that others wait for
  Status LostTrainer(Time now) const TD_REQUIRES(mu_);

  // shard_checkpoint.cc
  // Without slices and rows, but with what was before the last update.
  ShardSnapshot ImageHead(bool delta) TD_REQUIRES(mu_);
  StatusOr<ShardSnapshot> MakeImage(bool delta) TD_REQUIRES(mu_);
  // The state as it is now. FinishSnapshot copies its values, some at a time with the lock; where
  // another cut is not finished they are copied at once.
  StatusOr<Cut> BeginSnapshot(bool delta) TD_REQUIRES(mu_);
  StatusOr<bool> CopyChunk(Cut& cut) TD_REQUIRES(mu_);  // true: there is no more
  StatusOr<ShardSnapshot> FinishSnapshot(Cut& cut);
  void AbandonSnapshot(uint64_t number);
  SnapshotFn CopyOf(Cut cut);  // by FinishSnapshot; else by AbandonSnapshot

  // shard_restore.cc
  Status Replace(const ShardSnapshot& head, std::unique_ptr<ShardParams> params);

  const Options options_;
  const Clock& clock_;
  const Backend& backend_;
  Device& device_;
  Metrics& metrics_;
  Counters counters_;
  DeltaBase base_;  // has a lock of its own: Kept may come from keep_first

  mutable Mutex job_mu_;                    // held for a moment, also while mu_ is
  std::string job_ TD_GUARDED_BY(job_mu_);  // Job
  mutable Mutex mu_;
  Status broken_ TD_GUARDED_BY(mu_);  // not OK: an update failed half-way, or Shutdown
  ShardConfig config_ TD_GUARDED_BY(mu_);
  JobSettingsCheck agreed_ TD_GUARDED_BY(mu_);
  uint64_t keeping_ TD_GUARDED_BY(mu_) = 0;  // the cut that keep_first writes; 0: none
  bool restored_ TD_GUARDED_BY(mu_) = false;
  bool may_treat_otherwise_ TD_GUARDED_BY(mu_) = false;     // restored, and nobody configured since
  std::unique_ptr<ShardParams> params_ TD_GUARDED_BY(mu_);  // null: not configured
  std::optional<TableMetrics> table_metrics_ TD_GUARDED_BY(mu_);
  MoveState moves_ TD_GUARDED_BY(mu_);
  Frozen frozen_ TD_GUARDED_BY(mu_);
  Hold hold_ TD_GUARDED_BY(mu_);
  uint64_t last_cut_ TD_GUARDED_BY(mu_) = 0;      // that was taken or given up
  bool has_previous_ TD_GUARDED_BY(mu_) = false;  // the version before is there too
  uint64_t version_ TD_GUARDED_BY(mu_) = 0;
  uint64_t rollbacks_ TD_GUARDED_BY(mu_) = 0;   // while it served
  UpdateTime update_ TD_GUARDED_BY(mu_);        // that made it
  uint64_t log_number_ TD_GUARDED_BY(mu_) = 0;  // the last change noted
  // ... and the one with which the parameters became what they are. What was noted behind it, such
  // as gradients of the step in progress, is in no image: the log must keep it.
  uint64_t settled_number_ TD_GUARDED_BY(mu_) = 0;
  bool replaying_ TD_GUARDED_BY(mu_) = false;
  ReplayQueue owed_ TD_GUARDED_BY(mu_);
  std::map<int, uint64_t> replayed_ TD_GUARDED_BY(mu_);  // by trainer: the newest in the log
  bool waited_ TD_GUARDED_BY(mu_) = false;               // for values, since the start
  // Sync: steps of which the pushes of a trainer are lost. Nothing comes behind them.
  std::map<int, uint64_t> gone_ TD_GUARDED_BY(mu_);
  std::atomic<uint64_t> kept_number_ = 0;
  bool cutting_ TD_GUARDED_BY(mu_) = false;  // there is a cut that is not finished,
  uint64_t cuts_ TD_GUARDED_BY(mu_) = 0;     // ... this one
  std::optional<std::pair<int, float>> step_rate_ TD_GUARDED_BY(mu_);  // trainer, learning rate
  TrainerRegistry trainers_ TD_GUARDED_BY(mu_);
  Time silent_told_ TD_GUARDED_BY(mu_) = Time::min();  // with `replaces`, on_silent
  WaitList<InitCall> init_calls_ TD_GUARDED_BY(mu_);
  WaitList<PullCall> pull_calls_ TD_GUARDED_BY(mu_);
  NamedBarriers barriers_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem
