#include "pserver/shard/shard.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "common/base/require.h"
#include "common/base/step_number.h"
#include "common/base/visitor.h"
#include "pserver/shard/checkpoint_calls.h"
#include "pserver/shard/global_snapshot_calls.h"
#include "pserver/shard/migration_calls.h"
#include "pserver/shard/read_calls.h"
#include "pserver/tables/push_filters.h"

namespace tandem::pserver {
namespace {

std::vector<Buffer> TakeBuffers(PushTicket& ticket) {
  std::vector<Buffer> buffers;
  for (PushBytes& values : ticket.buffers) buffers.push_back(std::move(values).Take());
  return buffers;
}

}  // namespace

Shard::Shard(Options options, const Clock& clock, const exec::Backend& backend, Device& device,
             Metrics& metrics)
    : options_(std::move(options)),
      factory_(options_, backend, device),
      counters_(metrics),
      job_(options_.job),
      state_(options_, clock, metrics),
      migrations_(state_, base_),
      hold_(options_.index, clock, counters_.hold),
      snapshotter_(state_, base_),
      replay_(state_),
      gate_(state_, replay_, migrations_, hold_),
      reader_(state_, migrations_, counters_),
      change_reader_(state_, migrations_),
      calls_(state_, reader_, counters_),
      timeouts_(state_) {}

Shard::~Shard() { Shutdown(); }

Shard::Migrations Shard::migrations() { return Migrations(*this); }
Shard::Reads Shard::reads() { return Reads(*this); }
Shard::GlobalSnapshots Shard::global_snapshots() { return GlobalSnapshots(*this); }
Shard::Checkpoints Shard::checkpoints() { return Checkpoints(*this); }

void Shard::Run(Ready ready) {
  if (ready.empty()) return;
  WhenLogged([ready = std::move(ready)](const Status& written) {
    for (const auto& callback : ready) callback(written);
  });
}

void Shard::WhenLogged(WriteAheadLog::Written done) {
  if (options_.log == nullptr) return done(OkStatus());
  options_.log->WhenLogged(std::move(done));
}

// ---- Callers ------------------------------------------------------------------------------------

StatusOr<ConfigureResult> Shard::Configure(const CallerId& caller, const ShardConfig& config,
                                           const Agreement& settings) {
  TD_RETURN_IF_ERROR(CheckConfig(config));
  TD_RETURN_IF_ERROR(CheckSettings(settings));
  TD_RETURN_IF_ERROR(factory_.Check(config));
  if (caller.trainer < 0 || caller.trainer >= config.trainers) {
    return InvalidArgument("trainer %d is out of range, expected 0 to %d [TD4003]", caller.trainer,
                           config.trainers - 1);
  }
  if (options_.replayable && config.delay_compensation > 0) {
    return FailedPrecondition(
        "enable_dc_asgd is not supported with durability replayable, because retransmitted "
        "gradients are not compensated [TD1108]; hint: use --durability=logged");
  }
  if (options_.replication == Replication::kAsync && config.mode == UpdatePolicy::kSync) {
    return FailedPrecondition(
        "--replication=async of the pserver does not support sync training, because a server that "
        "lost a step cannot continue with the others [TD4038]; hint: use --replication=quorum, or "
        "a_sync training");
  }
  MutexLock lock(mu_);
  TD_RETURN_IF_ERROR(state_.broken);
  // A trainer that configures the server is going to push, so the log must have free space.
  TD_RETURN_IF_ERROR(state_.journal.Ready(0));
  TD_RETURN_IF_ERROR(AgreeOnSettings(caller, settings));
  if (state_.params == nullptr) {
    TD_RETURN_IF_ERROR(SetUp(config));
  } else {
    ShardConfig mine = state_.config;
    mine.slices = migrations_.moves().placed;
    if (may_change_policy_) CopyFaultPolicy(config, mine);
    if (const std::string difference = Difference(config, mine); !difference.empty()) {
      return FailedPrecondition(
          "the configuration of trainer %d differs: %s%s [TD4004]; hint: use one job file for all "
          "trainers, and new directories for a new job",
          caller.trainer, difference, restored_ ? " in the restored checkpoint" : "");
    }
    if (mine.each_step_once != config.each_step_once) migrations_.EndFreeze();
    mine.each_step_once = config.each_step_once;
    mine.slices = std::move(state_.config.slices);
    state_.config = std::move(mine);
  }
  may_change_policy_ = false;
  if (Status admitted = AdmitCaller(caller); !admitted.ok()) {
    // DATA_LOSS instead of UNAVAILABLE: a trainer that is still configuring does not know yet that
    // this server waits for pushes of other trainers.
    const bool replays = !replay_.empty() && state_.broken.ok();
    return replays ? DataLoss("%s", std::string(admitted.message())) : admitted;
  }
  return ConfigureResult{.server_incarnation = state_.incarnation(),
                         .initialised = state_.initialised(),
                         .restored = restored_,
                         .version = state_.version,
                         .map = migrations_.moves().map,
                         .generation = migrations_.moves().generation,
                         .replayable = options_.replayable,
                         .keep_bytes_max = options_.keep_bytes_max,
                         .steps = state_.trainers[caller.trainer].once_steps};
}

// Compares the settings of the caller with the settings of other trainers. Called before the caller
// replaces its older incarnation, which may still be active.
Status Shard::AgreeOnSettings(const CallerId& caller, const Agreement& settings) {
  const TrainerRegistry& trainers = state_.trainers;
  const bool is_old =
      caller.trainer < trainers.size() && caller.incarnation < trainers[caller.trainer].incarnation;
  if (is_old) return OkStatus();  // AdmitCaller rejects the caller
  const Duration silence_max = state_.silence_max();
  const auto is_at_work = [&trainers, silence_max, now = state_.clock.Now()](int other) {
    if (other >= trainers.size() || !trainers.seen(other) || trainers.Gone(other)) return false;
    return trainers.Waits(other) || now - trainers.last_heard(other) < silence_max;
  };
  return agreed_.Agree(caller.trainer, settings, silence_max, is_at_work);
}

Status Shard::SetUp(const ShardConfig& config) {
  TD_ASSIGN_OR_RETURN(std::unique_ptr<ShardParams> params, factory_.Make(config));
  state_.SetUp(config, std::move(params));
  migrations_.Place(config.slices);
  SetJob(config.job);
  return OkStatus();
}

void Shard::SetJob(const std::string& job) {
  MutexLock lock(job_mu_);
  job_ = job;
}

Status Shard::AdmitCaller(const CallerId& caller) {
  TD_RETURN_IF_ERROR(state_.CheckRank(caller));
  if (!replay_.empty() && !state_.journal.replaying()) {
    state_.trainers.Hear(caller.trainer);
    replay_.Lose(caller.trainer, caller.incarnation);
    Ready none;  // no call waits before the missing pushes have arrived
    TD_RETURN_IF_ERROR(RunReplay(none));
    TD_RETURN_IF_ERROR(replay_.CheckComplete(caller));
  }
  TD_RETURN_IF_ERROR(state_.CheckIncarnation(caller));
  if (caller.incarnation > state_.trainers[caller.trainer].incarnation) Adopt(caller);
  state_.trainers.Hear(caller.trainer);
  if (state_.trainers.lost(caller.trainer)) state_.trainers.OnReturned(caller.trainer);
  migrations_.Thaw();
  return OkStatus();
}

void Shard::Adopt(const CallerId& caller) {
  TrainerRegistry::Trainer& t = state_.trainers[caller.trainer];
  TD_REQUIRE(caller.incarnation > t.incarnation);
  state_.journal.Note(AdoptRecord{caller, state_.version});
  // The older incarnation kept pushes for a replay, and its end loses these pushes. A checkpoint
  // must therefore contain the pushes soon.
  const bool soon = options_.replayable && !state_.journal.replaying() && t.incarnation != 0 &&
                    state_.initialised();
  if (soon && options_.save_soon) options_.save_soon();
  t.Replace(caller.incarnation, state_.version);
  state_.params->step().Drop(caller.trainer);
  gate_.OnReplaced(caller.trainer);
}

Status Shard::Greet(const CallerId& caller) {
  MutexLock lock(mu_);
  return AdmitCaller(caller);
}

StatusOr<int> Shard::Complete(const CallerId& caller, const SentNumbers& numbers) {
  Turn turn(*this);
  TD_RETURN_IF_ERROR(AdmitCaller(caller));
  const TrainerRegistry::Trainer& t = state_.trainers[caller.trainer];
  if (t.rolled_back) {
    return FailedPrecondition(
        "trainer %d completes the job, but this server was restored to step %d of this trainer "
        "[TD4015]; hint: restart the trainers",
        caller.trainer, t.once_steps);
  }
  if (!t.completed) {
    state_.journal.Note(CompleteRecord{caller, numbers});
    CountLostPushes(caller.trainer, numbers, 0);
    CompleteTrainer(caller.trainer, turn.ready());
  }
  int left = 0;
  for (const TrainerRegistry::Trainer& other : state_.trainers) left += !other.completed;
  return left;
}

void Shard::CompleteTrainer(int trainer, Ready& ready) {
  state_.trainers[trainer].completed = true;
  // Drops the trainer's gradients of the step if some of its gradients are missing.
  if (!state_.params->step().GaveAll(trainer)) state_.params->step().Drop(trainer);
  ApplyStepIfComplete(ready);
  calls_.Wake(ready);
  calls_.WakeBarriers(ready);
}

// ---- Initial values -----------------------------------------------------------------------------

StatusOr<bool> Shard::InitParams(const CallerId& caller, uint64_t version,
                                 const std::vector<SliceValues>& params,
                                 const std::vector<SlotValues>& slots,
                                 const std::vector<RowValues>& rows) {
  Snapshotter::Copy copy;
  std::vector<bool> before;
  {
    Turn turn(*this);
    TD_RETURN_IF_ERROR(AdmitCaller(caller));
    if (caller.trainer != 0) {
      return FailedPrecondition("trainer %d sends initial parameters, expected trainer 0",
                                caller.trainer);
    }
    if (state_.initialised()) return true;
    if (state_.storing_first != 0) {
      return Unavailable(
          "the server is already writing the initial parameters to its directory [TD4017]; hint: "
          "try again later");
    }
    before = state_.params->progress().flags();
    TD_RETURN_IF_ERROR(state_.params->Init(version, params, slots, rows));
    state_.version = version;
    if (!state_.initialised()) return false;
    state_.Settle();
    if (!options_.keep_first) {
      calls_.Wake(turn.ready());
      return true;
    }
    TD_ASSIGN_OR_RETURN(copy, snapshotter_.Begin(/*delta=*/false, migrations_.moves()));
    state_.storing_first = copy.number;
  }
  TD_RETURN_IF_ERROR(StoreFirst(std::move(copy), before));
  return true;
}

Status Shard::StoreFirst(Snapshotter::Copy copy, const std::vector<bool>& before) {
  const uint64_t number = copy.number;
  const StatusOr<ShardSnapshot> snapshot = checkpoints().CopyOf(std::move(copy))();
  const Status stored = snapshot.ok() ? options_.keep_first(*snapshot) : snapshot.status();
  Turn turn(*this);
  TD_RETURN_IF_ERROR(state_.broken);
  if (state_.storing_first != number) {
    return Aborted("cannot store the initial parameters: the server was restored during the write");
  }
  state_.storing_first = 0;
  if (!stored.ok()) {
    // Restores the progress from before this message, so that the trainer may send the message
    // again.
    state_.params->progress().Set(before);
    return Annotate(stored, "cannot store the initial parameters");
  }
  calls_.Wake(turn.ready());
  return OkStatus();
}

void Shard::WaitInit(const CallerId& caller, Time deadline, Done<uint64_t> done, const void* tag) {
  Turn turn(*this);
  if (Status refused = AdmitCaller(caller); !refused.ok()) {
    turn.ready().push_back(Reply<uint64_t>(std::move(done), refused));
    return;
  }
  calls_.AddInit({{.trainer = caller.trainer,
                   .since = state_.clock.Now(),
                   .deadline = deadline,
                   .incarnation = caller.incarnation,
                   .tag = tag},
                  std::move(done)},
                 turn.ready());
}

// ---- Pushes and steps ---------------------------------------------------------------------------

StatusOr<PushTicket> Shard::AdmitPush(const PushHead& head, std::span<const void* const> in_place) {
  MutexLock lock(mu_);
  // Does not check the caller of a replayed push, which may be sent by an older incarnation.
  const Status admitted = replay_.Misses(head) ? OkStatus() : AdmitCaller(head.caller);
  StatusOr<PushTicket> ticket =
      admitted.ok() ? gate_.Admit(head, in_place) : StatusOr<PushTicket>(admitted);
  if (!ticket.ok()) counters_.refused.Add(1);
  return ticket;
}

StatusOr<bool> Shard::CheckValues(const PushHead& head, const PushTicket& ticket) {
  const bool unchecked =
      head.finite || ticket.nonfinite == NonfinitePolicy::kApply || ticket.duplicate();
  const Status found = unchecked ? OkStatus() : CheckFinite(head, ticket);
  if (found.ok()) return false;
  if (ticket.nonfinite == NonfinitePolicy::kSkip) {
    LOG_EVERY_T(WARNING, 10.0) << found.message() << "; the push was skipped";
    return true;
  }
  counters_.rejected.Add(1);
  counters_.refused.Add(1);
  return InvalidArgument(
      "%s; the server rejected the push [TD4013]; hint: set the knob nonfinite_gradients to "
      "another policy",
      found.message());
}

StatusOr<PushOutcome> Shard::Push(const PushHead& head, PushTicket ticket) {
  TD_ASSIGN_OR_RETURN(const bool skip, CheckValues(head, ticket));
  Turn turn(*this);
  if (!replay_.Misses(head) || !ticket.replayed()) TD_RETURN_IF_ERROR(AdmitCaller(head.caller));
  TD_RETURN_IF_ERROR(gate_.Recheck(head, ticket));
  const bool replayed = ticket.replayed();
  PushOutcome outcome;
  switch (ticket.verdict) {
    case PushVerdict::kReplayed: {
      TD_ASSIGN_OR_RETURN(outcome.log_number, replay_.Supply(head, TakeBuffers(ticket)));
      TD_RETURN_IF_ERROR(RunReplay(turn.ready()));
      break;
    }
    case PushVerdict::kDuplicate:
      outcome.duplicate = true;
      counters_.duplicates.Add(1);
      break;
    case PushVerdict::kNew:
      TD_RETURN_IF_ERROR(TakeNewPush(head, std::move(ticket), skip, turn.ready()));
      break;
  }
  outcome.version = state_.version;
  outcome.update = state_.update;
  if (options_.replayable && !replayed) {
    // Sets the log number of the push (PushReply.log_number): a checkpoint up to this number
    // contains the push. If the step of the push is complete, the settled number is such a number.
    // The last number might belong to a push of the next step, which no checkpoint contains before
    // that step is complete. A trainer that waits for the checkpoint before it pushes
    // (--keep_pushes_mb) might then wait for its own next push.
    const bool past = state_.sync() && head.step < state_.version;
    outcome.log_number = past ? state_.journal.settled_number() : replay_.last_number();
  }
  outcome.kept_number = base_.stored_number();
  return outcome;
}

Status Shard::TakeNewPush(const PushHead& head, PushTicket ticket, bool skip, Ready& ready) {
  if (Status status = state_.params->PrepareRows(head, ticket); !status.ok()) {
    counters_.refused.Add(1);
    return status;
  }
  if (!skip) return TakePush(head, std::move(ticket), ready);
  counters_.skipped.Add(1);
  ++state_.trainers[head.caller.trainer].skipped;
  const PushHead emptied = EmptyPush(head, state_.config.mode, *state_.params, ticket);
  return TakePush(emptied, std::move(ticket), ready);
}

Status Shard::TakePush(const PushHead& head, PushTicket ticket, Ready& ready) {
  TrainerRegistry::Trainer& t = state_.trainers[head.caller.trainer];
  const bool replaying = state_.journal.replaying();
  TD_RETURN_IF_ERROR(gate_.OwnValuesIfStepWaits(head, ticket));
  // Compensates before the push is logged: a replay could not compensate, because the log does not
  // contain the pulled values.
  if (const float factor = state_.config.delay_compensation; factor > 0 && !replaying) {
    TD_RETURN_IF_ERROR(CompensateDelay(head, factor, *state_.params, ticket));
  }
  state_.journal.NotePush(head, ticket);
  CountLostPushes(head.caller.trainer, head.numbers, head.sequence);
  t.taken.Take(head.sequence);
  t.numbers.Raise(head.numbers);
  t.last_step = head.step;
  t.ahead = false;
  if (head.once) t.once_steps = std::max(t.once_steps, head.step + 1);
  state_.config.each_step_once |= head.once && !state_.sync();
  ++t.pushes;
  counters_.pushes.Add(1);
  counters_.staleness.Observe(
      static_cast<double>(state_.version - std::min(state_.version, t.pulled)));
  counters_.push_bytes.Add(static_cast<double>(ValueBytes(head)));
  gate_.OnAccepted(head);
  if (state_.sync()) {
    state_.params->step().Gather(head, ticket);
    ApplyStepIfComplete(ready);
    return state_.broken;
  }
  state_.event_time_ms = std::max(state_.event_time_ms, head.event_time_ms);
  const Time begin = state_.clock.Now();
  if (Status status = state_.params->Apply(head, ticket, state_.version, state_.event_time_ms);
      !status.ok()) {
    Break(status, ready);
    return status;
  }
  Advance(begin, ready);
  return OkStatus();
}

void Shard::CountLostPushes(int trainer, const SentNumbers& numbers, uint64_t sequence) {
  if (options_.replication != Replication::kAsync) return;
  const int64_t change = state_.trainers[trainer].CountLost(numbers, sequence, options_.index);
  if (change <= 0) return;
  counters_.lost_pushes.Add(static_cast<double>(change));
  LOG_IF(WARNING, !state_.journal.replaying())
      << "trainer " << trainer << " has lost " << change
      << " of its acknowledged pushes with the previous primary of this server "
         "(--replication=async)";
}

void Shard::ApplyStepIfComplete(Ready& ready) {
  std::vector<int> ranks;
  for (int r = 0; r < state_.config.trainers; ++r) {
    if (state_.params->step().GaveAll(r)) {
      ranks.push_back(r);
    } else if (!state_.trainers[r].completed) {
      return;
    }
  }
  if (!state_.params->ServesAny() || ranks.empty()) return;
  const Time begin = state_.clock.Now();
  state_.event_time_ms = std::max(state_.event_time_ms, state_.params->step().EventTime(ranks));
  const Status status =
      state_.params->ApplyGathered(ranks, gate_.step_rate(), state_.version, state_.event_time_ms);
  if (!status.ok()) return Break(status, ready);
  state_.has_previous = true;
  gate_.OnStepEnded();
  Advance(begin, ready);
}

void Shard::Advance(Time begin, Ready& ready) {
  state_.update = {.begin = begin, .end = state_.clock.Now()};
  counters_.update_time.Observe(Seconds(state_.update.end - begin));
  ++state_.version;
  counters_.updates.Add(1);
  state_.ShowTables();
  state_.trainers.ApplyTaken();
  if (state_.journal.has_log()) state_.Settle();
  TryGlobalSnapshot(ready);
  // Wakes calls before the checkpoint begins, so that calls for this version do not wait for the
  // checkpoint.
  calls_.Wake(ready);
  const uint64_t every = options_.checkpoint_every_steps;
  const bool due = every != 0 && state_.version % every == 0 && !state_.journal.replaying();
  if (!due || !options_.on_checkpoint) return;
  BeginCopy(
      base_.TakesDelta(options_.checkpoint_deltas),
      absl::StrFormat("a checkpoint of version %d", state_.version),
      [this, version = state_.version](const SnapshotFn& copy) {
        options_.on_checkpoint(version, copy);
      },
      ready);
}

void Shard::Break(const Status& status, Ready& ready) {
  state_.broken =
      Internal("an update failed and left the parameters incomplete: %s", ToString(status));
  LOG(ERROR) << state_.broken.message();
  calls_.FailAll(state_.broken, ready);
}

// ---- Replay -------------------------------------------------------------------------------------

Status Shard::RunReplay(Ready& ready) {
  Status failure;
  while (state_.broken.ok() && failure.ok()) {
    std::optional<ReplayQueue::Change> next = replay_.Next();
    if (!next) break;
    const uint64_t number = next->entry.number;
    const Status made = ReplayChange(*std::move(next), ready);
    if (made.ok()) continue;
    failure = replay_.Failure(
        DataLoss("entry %d of the write-ahead log cannot be applied: %s", number, ToString(made)));
  }
  if (failure.ok()) {
    const StatusOr<bool> save_soon = replay_.Finish();
    counters_.missing_pushes.Set(static_cast<double>(replay_.missing()));
    if (save_soon.ok() && *save_soon && options_.save_soon) options_.save_soon();
    failure = save_soon.status();
  }
  if (!failure.ok()) {
    state_.broken = failure;
    LOG(ERROR) << failure.message();
  }
  return state_.broken;
}

Status Shard::ReplayChange(ReplayQueue::Change change, Ready& ready) {
  const Journal::Replay replaying(state_.journal, change.entry.number);
  const auto replay_push = [&](const PushHead& head, std::vector<Buffer> values)
                               TD_REQUIRES(mu_) -> Status {
    TD_RETURN_IF_ERROR(AdmitCaller(head.caller));
    if (change.lost && state_.sync()) {
      replay_.OnLostPush(head);
      return gate_.CheckStep(head);
    }
    if (change.lost) {
      ++state_.trainers[head.caller.trainer].lost_pushes;
      counters_.lost_pushes.Add(1);
    }
    TD_ASSIGN_OR_RETURN(const PushVerdict verdict, gate_.Check(head));
    if (verdict == PushVerdict::kDuplicate)
      return InvalidArgument("the server has already accepted this retransmitted push");
    PushTicket ticket;
    for (Buffer& buffer : values) ticket.buffers.emplace_back(std::move(buffer));
    if (!head.slices.empty()) {  // no slices: the push was skipped or is lost
      TD_ASSIGN_OR_RETURN(ticket.slices, state_.params->FindPush(head, migrations_.moves()));
    }
    return TakePush(head, std::move(ticket), ready);
  };
  return std::visit(
      Visitor{[&](const MoveRecord& r) TD_REQUIRES(mu_) { return migrations_.Replay(r); },
              [&](const AdoptRecord& r) TD_REQUIRES(mu_) {
                TD_RETURN_IF_ERROR(AdmitCaller(r.caller));
                // The new incarnation pushes its gradients for the incomplete step again, so the
                // lost pushes of the older incarnation do not matter.
                if (r.step == state_.version) replay_.OnReplaced(r.caller.trainer);
                return OkStatus();
              },
              [&](const CompleteRecord& r) TD_REQUIRES(mu_) {
                TD_RETURN_IF_ERROR(AdmitCaller(r.caller));
                CountLostPushes(r.caller.trainer, r.numbers, 0);
                CompleteTrainer(r.caller.trainer, ready);
                return OkStatus();
              },
              [&](PushRecord& r)
                  TD_REQUIRES(mu_) { return replay_push(r.head, std::move(r.values)); },
              [&](const OrderRecord& r) TD_REQUIRES(mu_) {
                TD_REQUIRE(change.lost);  // an OrderRecord with supplied values is a PushRecord
                return replay_push({r.header, {}}, {});
              },
              [&](const SnapshotRecord& r) TD_REQUIRES(mu_) {
                hold_.OnTaken(r.number);
                if (options_.on_logged_snapshot == nullptr) return OkStatus();
                const auto take = [this, r](const SnapshotFn& copy) {
                  options_.on_logged_snapshot(r, copy);
                };
                // If the copy cannot begin, the replay continues without the snapshot.
                BeginCopy(/*delta=*/false, absl::StrFormat("snapshot %d", r.number), take, ready);
                return OkStatus();
              }},
      change.entry.record);
}

// ---- Pulls and barriers -------------------------------------------------------------------------

Status Shard::AdmitPull(const PullQuery& query, Ready& ready) {
  if (query.observer) {
    TD_RETURN_IF_ERROR(state_.broken);
    TD_RETURN_IF_ERROR(replay_.CheckComplete());
    if (state_.params == nullptr) return state_.CheckInitialised();
    TD_RETURN_IF_ERROR(CheckJob(query.caller.job, state_.config.job));
    return reader_.Check(query);
  }
  TD_RETURN_IF_ERROR(AdmitCaller(query.caller));
  if (state_.sync() && query.min_version > state_.version &&
      state_.trainers[query.caller.trainer].ahead) {
    return FailedPrecondition(
        "trainer %d waits for the end of step %d, but this server was restored to step %d "
        "[TD4015]; hint: restart the trainers",
        query.caller.trainer, DisplayStep(query.min_version - 1), DisplayStep(state_.version));
  }
  // Reports unknown variables immediately, and not only when the requested version is available.
  TD_RETURN_IF_ERROR(reader_.Check(query));
  if (state_.trainers.RaiseSteps(query.caller.trainer, query.min_step)) calls_.Wake(ready);
  return OkStatus();
}

void Shard::Pull(const PullQuery& query, Time deadline, Done<PullResult> done, const void* tag) {
  Turn turn(*this);
  if (Status refused = AdmitPull(query, turn.ready()); !refused.ok()) {
    turn.ready().push_back(Reply<PullResult>(std::move(done), refused));
    return;
  }
  calls_.AddPull({{.trainer = query.observer ? -1 : query.caller.trainer,
                   .since = state_.clock.Now(),
                   .deadline = deadline,
                   .incarnation = query.caller.incarnation,
                   .tag = tag},
                  query,
                  std::move(done)},
                 turn.ready());
}

void Shard::Barrier(const CallerId& caller, const std::string& name, uint64_t generation,
                    Time deadline, std::function<void(Status)> done, const void* tag) {
  Turn turn(*this);
  if (Status refused = AdmitCaller(caller); !refused.ok()) {
    turn.ready().push_back([done = std::move(done), refused](const Status&) { done(refused); });
    return;
  }
  calls_.EnterBarrier(name,
                      {{.trainer = caller.trainer,
                        .since = state_.clock.Now(),
                        .deadline = deadline,
                        .incarnation = caller.incarnation,
                        .tag = tag},
                       generation,
                       std::move(done)},
                      turn.ready());
}

void Shard::Leave(const void* tag) {
  Turn turn(*this);
  calls_.Leave(tag, turn.ready());
}

// ---- Deadlines ----------------------------------------------------------------------------------

void Shard::ExpireWaiters() {
  struct Unresponsive {
    int trainer = 0;
    Duration silent{};
  };
  std::vector<Unresponsive> told;
  Ready ready;
  {
    MutexLock lock(mu_);
    const Time now = state_.clock.Now();
    calls_.FailReplaced(ready);
    if (const std::vector<int> lost = timeouts_.LoseSilent(now); !lost.empty()) {
      for (const int r : lost) replay_.Lose(r, UINT64_MAX);
      if (const Status replayed = RunReplay(ready); !replayed.ok()) calls_.FailAll(replayed, ready);
      calls_.Wake(ready);
      calls_.WakeBarriers(ready);
    }
    OnHoldEnded(hold_.Expire(state_.trainers, migrations_.placement(), state_.version), ready);
    const std::vector<int> unresponsive = timeouts_.Unresponsive(now, calls_.Awaited());
    for (const int r : unresponsive) {
      // Does not report a trainer that has never called, because the trainer may still be starting.
      if (state_.trainers.seen(r)) told.push_back({r, now - state_.trainers.last_heard(r)});
    }
    const Status lost = timeouts_.CheckResponsive(now, unresponsive);
    if (options_.replaces) {
      timeouts_.OnTold(now);
    } else if (!lost.ok()) {
      calls_.FailAll(lost, ready);
    }
    calls_.Expire(now, lost, ready);
  }
  // Reports unresponsive trainers before waiting calls fail, because a process whose call failed
  // may exit.
  for (const Unresponsive& u : told) {
    if (options_.on_silent) options_.on_silent(u.trainer, u.silent);
  }
  Run(std::move(ready));
}

Time Shard::NextDeadline() const {
  MutexLock lock(mu_);
  if (calls_.HasReplaced()) return state_.clock.Now();
  const Time calls = std::min(hold_.NextDeadline(), calls_.NextDeadline());
  return timeouts_.NextDeadline(calls, calls_.Awaited());
}

void Shard::Shutdown() {
  Turn turn(*this);
  if (state_.broken.ok()) state_.broken = Unavailable("this server is shutting down");
  calls_.FailAll(state_.broken, turn.ready());
  OnHoldEnded(hold_.End(state_.broken), turn.ready());
}

// ---- Snapshots and information ------------------------------------------------------------------

void Shard::BeginCopy(bool delta, const std::string& what, std::function<void(SnapshotFn)> then,
                      Ready& ready) {
  StatusOr<Snapshotter::Copy> copy = snapshotter_.Begin(delta, migrations_.moves());
  if (!copy.ok()) {
    LOG(ERROR) << "cannot write " << what << ": " << ToString(copy.status());
    return;
  }
  ready.push_back([copy = checkpoints().CopyOf(*std::move(copy)),
                   then = std::move(then)](const Status& written) mutable {
    const SnapshotFn now = std::exchange(copy, nullptr);
    if (written.ok()) then(now);
  });
}

void Shard::TryGlobalSnapshot(Ready& ready) {
  if (!hold_.ordered() || state_.journal.replaying()) return;
  const Status verdict = hold_.Verdict(state_.trainers, migrations_.placement(), state_.version);
  if (verdict.code() == StatusCode::kUnavailable) return;
  StatusOr<Snapshotter::Copy> copy = verdict.ok()
                                         ? snapshotter_.Begin(/*delta=*/false, migrations_.moves())
                                         : StatusOr<Snapshotter::Copy>(verdict);
  if (!copy.ok()) return OnHoldEnded(hold_.End(copy.status()), ready);
  if (options_.on_logged_snapshot != nullptr) state_.journal.Note(hold_.record());
  std::optional<GlobalSnapshotHold::Ended> ended = hold_.End(OkStatus());
  ready.push_back([held = ended->held, done = std::move(ended->done),
                   copy = checkpoints().CopyOf(*std::move(copy))](const Status& written) mutable {
    const SnapshotFn now = std::exchange(copy, nullptr);
    written.ok() ? done(PendingSnapshot{.copy = now, .held = held}) : done(written);
  });
}

void Shard::OnHoldEnded(std::optional<GlobalSnapshotHold::Ended> ended, Ready& ready) {
  if (!ended || ended->done == nullptr) return;
  ready.push_back([done = std::move(ended->done), why = ended->why](const Status&) { done(why); });
}

std::string Shard::Job() const {
  MutexLock lock(job_mu_);
  return job_;
}

ShardInfo Shard::Info() const {
  MutexLock lock(mu_);
  ShardInfo info;
  info.configured = state_.params != nullptr;
  info.initialised = state_.initialised();
  info.config = state_.config;
  info.version = state_.version;
  info.repeated_pushes = static_cast<uint64_t>(counters_.duplicates.Value());
  for (size_t i = 0; i < state_.config.tables.size() && info.configured; ++i) {
    info.tables.push_back(state_.params->tables().table(static_cast<int>(i)).Info());
  }
  for (int b = 0; b < kRowBuckets; ++b) info.buckets += state_.Serves(b);
  info.map_version = migrations_.moves().map.version();
  info.last_snapshot = hold_.last_number();
  info.trainers = state_.trainers.Info();
  // The log may name a newer incarnation in an entry that still waits for the values of pushes.
  for (TrainerInfo& t : info.trainers) {
    t.incarnation = std::max(t.incarnation, replay_.incarnation(t.trainer));
  }
  return info;
}

}  // namespace tandem::pserver
