// The state machine of a parameter server, without network: pushes, pulls, completion of steps,
// waiting calls. It owns no thread, no socket and no clock. A waiting call is a callback with a
// deadline; the owner of the shard calls ExpireWaiters no later than NextDeadline().
//
// In sync mode, a shard gathers the gradients of a step, in any order and any number of messages. A
// step is complete when every trainer that has not completed the job has sent every slice and the
// rows of every table (possibly no rows). The shard then sums the gradients; the sum for slices is
// a tree over the ranks (ReduceTree). The optimizer runs once on each sum, and the version
// increases by one. The parameters of all slices change together, so a trainer that is replaced
// within a step finds the parameters of its predecessor.
//
// In a_sync mode, each push is applied immediately and increases the version by one.
//
// A push has an effect only once, because the shard records (trainer, incarnation, sequence) of
// each push (sequence_window.h). A restarted trainer has a higher incarnation. From the first call
// of the new incarnation on, the shard rejects calls of older incarnations and drops their
// gradients for the step in progress.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/mutex.h"
#include "common/tables/push_header.h"
#include "pserver/shard/bucket_migrations.h"
#include "pserver/shard/change_reader.h"
#include "pserver/shard/log/delta_base.h"
#include "pserver/shard/params_factory.h"
#include "pserver/shard/pull_reader.h"
#include "pserver/shard/push_gate.h"
#include "pserver/shard/push_replay.h"
#include "pserver/shard/shard_options.h"
#include "pserver/shard/shard_state.h"
#include "pserver/shard/snapshotter.h"
#include "pserver/shard/trainer_timeouts.h"
#include "pserver/shard/trainers/global_snapshot_hold.h"
#include "pserver/shard/trainers/job_settings_check.h"
#include "pserver/shard/waiting_calls.h"
#include "pserver/state/pull.h"
#include "pserver/state/push.h"
#include "pserver/state/shard_config.h"
#include "pserver/state/shard_counters.h"
#include "pserver/state/shard_info.h"
#include "pserver/state/values.h"

namespace tandem::pserver {

// The shard of one server. Thread-safe. Each callback runs exactly once, in Shutdown at the latest.
// It runs without any lock, on the thread whose call made it ready, or on the log's thread if there
// is a log.
//
// The parts of a shard make decisions and return the decisions. Only the shard holds the lock,
// wakes waiting calls and sends replies.
class Shard {
 public:
  using Options = ShardOptions;
  template <typename T>
  using Done = std::function<void(StatusOr<T>)>;
  class Migrations;       // calls that move buckets (migration_calls.h)
  class GlobalSnapshots;  // calls of a global snapshot (global_snapshot_calls.h)
  class Checkpoints;      // calls that store or replace the whole state (checkpoint_calls.h)
  class Reads;            // calls that read and change nothing (read_calls.h)

  // All arguments except `options` must outlive the shard.
  Shard(Options options, const Clock& clock, const exec::Backend& backend, Device& device,
        Metrics& metrics);
  ~Shard();

  // Each result is valid as long as the shard exists.
  Migrations migrations();
  GlobalSnapshots global_snapshots();
  Checkpoints checkpoints();
  Reads reads();

  // Configures the shard. A repeated call has no effect. FAILED_PRECONDITION: the shard has another
  // configuration, or active trainers have other settings (the message names the difference).
  StatusOr<ConfigureResult> Configure(const CallerId& caller, const ShardConfig& config,
                                      const Agreement& settings = {});

  // Sets initial values, which trainer 0 sends. Returns true if now every slice and table has its
  // values. Does nothing if the shard already has its initial values. On an error, nothing changes.
  // UNAVAILABLE: keep_first is still storing the initial values.
  StatusOr<bool> InitParams(const CallerId& caller, uint64_t version,
                            const std::vector<SliceValues>& params,
                            const std::vector<SlotValues>& slots,
                            const std::vector<RowValues>& rows = {});
  // Waits for the initial values. `done` receives the version.
  void WaitInit(const CallerId& caller, Time deadline, Done<uint64_t> done,
                const void* tag = nullptr);

  // Checks and records the caller: it must belong to this job and be the current or a newer
  // incarnation of its trainer.
  Status Greet(const CallerId& caller);

  // AdmitPush and Push handle a push in two parts. Between the two calls, the caller copies the
  // values to their destination, once and without the lock. AdmitPush checks the push except its
  // values and returns memory for the values. `in_place`: for each slice, the address of its values
  // in the received message, valid until Push returns; null: the values must be copied. Values that
  // are not needed after Push (a_sync without a log) are not copied. Only f32 values can stay in
  // place: the sender may change the memory at any time, and no bit pattern of an f32 can damage
  // more than the parameters.
  StatusOr<PushTicket> AdmitPush(const PushHead& head, std::span<const void* const> in_place = {});
  // Applies or gathers the values in the buffers of the ticket. If a value is NaN or infinite, the
  // configured policy applies: the push is rejected with INVALID_ARGUMENT (the message names
  // trainer, step, variable and element), is skipped, or is applied. REQUIRES: AdmitPush(head)
  // returned the ticket.
  StatusOr<PushOutcome> Push(const PushHead& head, PushTicket ticket);
  uint64_t pushes() const { return static_cast<uint64_t>(counters_.pushes.Value()); }

  void Pull(const PullQuery& query, Time deadline, Done<PullResult> done,
            const void* tag = nullptr);

  // Waits for the other trainers in barrier `name`. `generation`: number of this use of the
  // barrier, from 1. If this generation was already released, `done` is called immediately.
  void Barrier(const CallerId& caller, const std::string& name, uint64_t generation, Time deadline,
               std::function<void(Status)> done, const void* tag = nullptr);
  // Ends the wait of the call with this tag, because its caller has disconnected. `done` of the
  // call receives CANCELLED. Has no effect if no such call waits.
  void Leave(const void* tag);

  // Records that the trainer sends no more pushes. `numbers`: see PushHeader. Returns the number of
  // trainers that have not completed.
  StatusOr<int> Complete(const CallerId& caller, const SentNumbers& numbers = {});

  // Calls `done` when all changes made so far are logged. The owner must not acknowledge a change
  // earlier. Without a log, calls `done` immediately.
  void WhenLogged(WriteAheadLog::Written done);

  ShardInfo Info() const;
  // Returns the configured job. If the shard is not configured, returns ShardOptions::job, which
  // may be "". Never waits for other calls.
  std::string Job() const;
  bool replayable() const { return options_.replayable; }

  // Fails the calls whose deadline has passed. If a trainer for which calls wait is unresponsive,
  // fails all waiting calls, unless ShardOptions::replaces.
  void ExpireWaiters();
  // Earliest time at which ExpireWaiters must be called; Time::max(): no call waits.
  Time NextDeadline() const;

  // Fails all waiting and all later calls with UNAVAILABLE.
  void Shutdown();

 private:
  using Ready = ReadyAnswers;

  // Holds the lock of the shard. The destructor releases the lock, then sends the replies that
  // became ready.
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
  // Checks the caller and records its call. Called once by each public function. A newer
  // incarnation replaces the older incarnation, a lost trainer counts as active again, and frozen
  // buckets thaw after their lease.
  Status AdmitCaller(const CallerId& caller) TD_REQUIRES(mu_);
  Status AdmitPull(const PullQuery& query, Ready& ready) TD_REQUIRES(mu_);
  void Adopt(const CallerId& caller)
      TD_REQUIRES(mu_);  // `caller` is a newer incarnation of its trainer
  Status AgreeOnSettings(const CallerId& caller, const Agreement& settings) TD_REQUIRES(mu_);
  Status SetUp(const ShardConfig& config) TD_REQUIRES(mu_);
  void SetJob(const std::string& job);
  // Called when all initial values have arrived. Stores the values as snapshot `storing_first`,
  // then replies to the calls that wait for initial values. If the snapshot cannot be stored,
  // resets the progress to `before`.
  Status StoreFirst(Snapshotter::Copy copy, const std::vector<bool>& before);

  // ---- Pushes and steps -------------------------------------------------------------------------
  // Returns whether the push must be skipped because a value is NaN or infinite. INVALID_ARGUMENT:
  // the policy rejects such a push; the counters of rejected pushes increase.
  StatusOr<bool> CheckValues(const PushHead& head, const PushTicket& ticket);
  Status TakeNewPush(const PushHead& head, PushTicket ticket, bool skip, Ready& ready)
      TD_REQUIRES(mu_);
  Status TakePush(const PushHead& head, PushTicket ticket, Ready& ready) TD_REQUIRES(mu_);
  // Replication::kAsync: counts the pushes of `numbers` that this server has lost. `sequence`: the
  // push that arrives; 0: none.
  void CountLostPushes(int trainer, const SentNumbers& numbers, uint64_t sequence) TD_REQUIRES(mu_);
  void ApplyStepIfComplete(Ready& ready) TD_REQUIRES(mu_);
  void CompleteTrainer(int trainer, Ready& ready) TD_REQUIRES(mu_);
  // Increases the version by one. `begin`: time at which the update began.
  void Advance(Time begin, Ready& ready) TD_REQUIRES(mu_);
  void Break(const Status& status, Ready& ready) TD_REQUIRES(mu_);

  // ---- Replay -----------------------------------------------------------------------------------
  // Applies all logged changes that can be applied now. `ready`: gets the replies to pulls that
  // wait for these changes, on a replica.
  Status RunReplay(Ready& ready) TD_REQUIRES(mu_);
  Status ReplayChange(ReplayQueue::Change change, Ready& ready) TD_REQUIRES(mu_);

  // ---- Snapshots --------------------------------------------------------------------------------
  // Begins a copy of the state, and then calls `then` with the function that makes the copy. Logs
  // an error if the copy cannot begin. `what`: its name in the message.
  void BeginCopy(bool delta, const std::string& what, std::function<void(SnapshotFn)> then,
                 Ready& ready) TD_REQUIRES(mu_);
  // Makes the ordered global snapshot if all its pushes are accepted. Ends the hold if the snapshot
  // is impossible.
  void TryGlobalSnapshot(Ready& ready) TD_REQUIRES(mu_);
  // Passes the reason to the call that ordered the snapshot of the ended hold, if there is such a
  // call.
  void OnHoldEnded(std::optional<GlobalSnapshotHold::Ended> ended, Ready& ready) TD_REQUIRES(mu_);

  const Options options_;
  const ParamsFactory factory_;
  ShardCounters counters_;
  DeltaBase base_;  // has its own lock, because keep_first may call OnStored without mu_

  mutable Mutex job_mu_;                    // locked only briefly, also while mu_ is locked
  std::string job_ TD_GUARDED_BY(job_mu_);  // the job that Job() returns
  mutable Mutex mu_;
  ShardState state_ TD_GUARDED_BY(mu_);
  JobSettingsCheck agreed_ TD_GUARDED_BY(mu_);
  bool restored_ TD_GUARDED_BY(mu_) = false;
  // true: the state was restored, and no trainer has configured the shard since then.
  bool may_change_policy_ TD_GUARDED_BY(mu_) = false;
  BucketMigrations migrations_ TD_GUARDED_BY(mu_);
  GlobalSnapshotHold hold_ TD_GUARDED_BY(mu_);
  Snapshotter snapshotter_ TD_GUARDED_BY(mu_);
  PushReplay replay_ TD_GUARDED_BY(mu_);
  PushGate gate_ TD_GUARDED_BY(mu_);
  PullReader reader_ TD_GUARDED_BY(mu_);
  ChangeReader change_reader_ TD_GUARDED_BY(mu_);
  WaitingCalls calls_ TD_GUARDED_BY(mu_);
  TrainerTimeouts timeouts_ TD_GUARDED_BY(mu_);
};

}  // namespace tandem::pserver
