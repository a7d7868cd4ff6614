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

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/tables/push_header.h"
#include "pserver/shard/bucket_migrations.h"
#include "pserver/shard/delta_base.h"
#include "pserver/shard/global_snapshot_hold.h"
#include "pserver/shard/job_settings_check.h"
#include "pserver/shard/params_factory.h"
#include "pserver/shard/pull_reader.h"
#include "pserver/shard/push_gate.h"
#include "pserver/shard/push_replay.h"
#include "pserver/shard/shard_counters.h"
#include "pserver/shard/shard_options.h"
#include "pserver/shard/shard_state.h"
#include "pserver/shard/snapshotter.h"
#include "pserver/shard/trainer_timeouts.h"
#include "pserver/shard/waiting_calls.h"
#include "pserver/state/pull.h"
#include "pserver/state/push.h"
#include "pserver/state/shard_config.h"
#include "pserver/state/shard_info.h"
#include "pserver/state/values.h"

namespace tandem::pserver {

// The shard of one server. Thread-safe. A callback runs without any lock, on the thread of the call
// that made it ready (with a log: on the log's thread). Each callback runs exactly once, at the
// latest in Shutdown.
//
// The parts of a shard return decisions. The shard alone holds the lock, wakes waiting calls and
// answers.
class Shard {
 public:
  using Options = ShardOptions;
  template <typename T>
  using Done = std::function<void(StatusOr<T>)>;
  class Migrations;       // calls that move buckets (migration_calls.h)
  class GlobalSnapshots;  // calls of a global snapshot (global_snapshot_calls.h)
  class Checkpoints;      // the state as a whole, for the owner that stores it (checkpoint_calls.h)

  // All arguments except `options` must outlive the shard.
  Shard(Options options, const Clock& clock, const Backend& backend, Device& device,
        Metrics& metrics);
  ~Shard();

  // Each is valid as long as the shard.
  Migrations migrations();
  GlobalSnapshots global_snapshots();
  Checkpoints checkpoints();

  // Idempotent. FAILED_PRECONDITION: the shard has another configuration, or active trainers have
  // other settings (the message names the difference).
  StatusOr<ConfigureResult> Configure(const CallerId& caller, const ShardConfig& config,
                                      const Agreement& settings = {});

  // Sets initial values, sent by trainer 0. Returns true when every slice and table has its values.
  // Does nothing if the shard is already initialised. On an error, nothing changes. UNAVAILABLE:
  // keep_first is running.
  StatusOr<bool> InitParams(const CallerId& caller, uint64_t version,
                            const std::vector<SliceValues>& params,
                            const std::vector<SlotValues>& slots,
                            const std::vector<RowValues>& rows = {});
  // `done` receives the version.
  void WaitInit(const CallerId& caller, Time deadline, Done<uint64_t> done,
                const void* tag = nullptr);

  // Checks the caller: it must be of this job and of the current incarnation.
  Status Greet(const CallerId& caller);

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
  void Barrier(const CallerId& caller, const std::string& name, uint64_t generation, Time deadline,
               std::function<void(Status)> done, const void* tag = nullptr);
  // Ends the wait of the call with this tag (CANCELLED). Its caller has disconnected. Does nothing
  // if the call already has its reply.
  void Leave(const void* tag);

  // Returns the number of trainers that have not completed.
  StatusOr<int> Complete(const CallerId& caller);

  // Calls `done` when all changes up to now are logged. No change may be acknowledged before that.
  // Without a log: immediately.
  void WhenLogged(WriteAheadLog::Written done);

  // Returns the version, and the optimizer slots of `variables` (empty: all).
  StatusOr<VersionedSlots> PullState(const std::string& job,
                                     const std::vector<std::string>& variables);

  // Rows of buckets [bucket, end) (SparseTable::Page). If `end` is not 0, all of these buckets must
  // be here.
  StatusOr<TablePage> PullTable(const std::string& job, const std::string& variable, int bucket,
                                bool slots, uint64_t bytes_max, int end = 0);

  ShardInfo Info() const;
  // Returns the configured job, otherwise the job of the options, otherwise "". Never blocks.
  std::string Job() const;
  bool replayable() const { return options_.replayable; }

  // Fails the calls whose deadline has passed, and all waiting calls if a trainer they wait for is
  // lost.
  void ExpireWaiters();
  // Earliest time at which ExpireWaiters has work; Time::max(): no call waits.
  Time NextDeadline() const;

  // Fails all waiting and all later calls with UNAVAILABLE.
  void Shutdown();

 private:
  using Ready = ReadyAnswers;

  // Holds the lock. Its end releases the lock, then sends the replies that became ready.
  class TD_SCOPED_CAPABILITY Turn {
   public:
    explicit Turn(Shard& shard) TD_ACQUIRE(shard.mu_) : shard_(shard) { shard_.mu_.Lock(); }
    ~Turn() TD_RELEASE() {
      shard_.mu_.Unlock();
      shard_.Run(std::move(ready_));
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    Ready& ready() { return ready_; }

   private:
    Shard& shard_;
    Ready ready_;
  };

  void Run(Ready ready);

  // ---- Callers ----------------------------------------------------------------------------------
  // Checks the caller and records its call: a newer incarnation replaces the older one, a lost
  // trainer is back, frozen buckets thaw after their lease. Each public entry calls it once.
  Status AdmitCaller(const CallerId& caller) TD_REQUIRES(mu_);
  Status AdmitPull(const PullQuery& query, Ready& ready) TD_REQUIRES(mu_);
  void Adopt(const CallerId& caller) TD_REQUIRES(mu_);  // a newer incarnation
  Status AgreeOnSettings(const CallerId& caller, const Agreement& settings) TD_REQUIRES(mu_);
  Status SetUp(const ShardConfig& config) TD_REQUIRES(mu_);
  void SetJob(const std::string& job);
  // All initial values are here: stores them as snapshot `storing_first`, then replies to the calls
  // that wait for them. If they cannot be stored, the shard goes back to the values in `before`.
  Status StoreFirst(Snapshotter::Copy copy, const std::vector<bool>& before);

  // ---- Pushes and steps -------------------------------------------------------------------------
  // Whether the push is skipped for NaN or infinity; updates the counters.
  StatusOr<bool> CheckValues(const PushHead& head, const PushTicket& ticket);
  Status TakeNewPush(const PushHead& head, PushTicket ticket, bool skip, Ready& ready)
      TD_REQUIRES(mu_);
  Status TakePush(const PushHead& head, PushTicket ticket, Ready& ready) TD_REQUIRES(mu_);
  void ApplyStepIfComplete(Ready& ready) TD_REQUIRES(mu_);
  void CompleteTrainer(int trainer, Ready& ready) TD_REQUIRES(mu_);
  // The version grows by the update that began at `begin`.
  void Advance(Time begin, Ready& ready) TD_REQUIRES(mu_);
  void Break(const Status& status, Ready& ready) TD_REQUIRES(mu_);

  // ---- Replay -----------------------------------------------------------------------------------
  // Makes all logged changes that can be made now.
  Status RunReplay() TD_REQUIRES(mu_);
  Status ReplayChange(ReplayQueue::Change change) TD_REQUIRES(mu_);

  // ---- Snapshots --------------------------------------------------------------------------------
  void BeginCheckpoint(Ready& ready) TD_REQUIRES(mu_);
  void TryGlobalSnapshot(Ready& ready) TD_REQUIRES(mu_);  // if one is ordered
  // Replies to the call that ordered a snapshot for which the hold has ended.
  void OnHoldEnded(std::optional<GlobalSnapshotHold::Ended> ended, Ready& ready) TD_REQUIRES(mu_);

  const Options options_;
  const ParamsFactory factory_;
  ShardCounters counters_;
  DeltaBase base_;  // has its own lock: OnStored may be called from keep_first

  mutable Mutex job_mu_;                    // held briefly, also while mu_ is held
  std::string job_ TD_GUARDED_BY(job_mu_);  // see Job
  mutable Mutex mu_;
  ShardState state_ TD_GUARDED_BY(mu_);
  JobSettingsCheck agreed_ TD_GUARDED_BY(mu_);
  bool restored_ TD_GUARDED_BY(mu_) = false;
  // restored, and no trainer has configured since
  bool may_change_policy_ TD_GUARDED_BY(mu_) = false;
  BucketMigrations migrations_ TD_GUARDED_BY(mu_);
  GlobalSnapshotHold hold_ TD_GUARDED_BY(mu_);
  Snapshotter snapshotter_ TD_GUARDED_BY(mu_);
  PushReplay replay_ TD_GUARDED_BY(mu_);
  PushGate gate_ TD_GUARDED_BY(mu_);
  PullReader reader_ TD_GUARDED_BY(mu_);
  WaitingCalls calls_ TD_GUARDED_BY(mu_);
  TrainerTimeouts timeouts_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::pserver
