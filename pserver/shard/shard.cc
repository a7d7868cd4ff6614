#include "pserver/shard/shard.h"
#include "common/base/step_number.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

namespace tandem::pserver {
namespace {

const std::vector<double> kWaitBounds = {1e-4, 1e-3, 1e-2, 0.1, 1, 10, 60};
const std::vector<double> kStalenessBounds = {0, 1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 1024};
const std::vector<double> kUpdateBounds = {1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1};

uint64_t ValueBytes(const PushHead& head) {
  uint64_t bytes = 0;
  for (const PushHead::Slice& s : head.slices) bytes += s.desc.bytes();
  return bytes;
}

}  // namespace

Shard::Counters::Counters(Metrics& m)
    : pushes(m.GetCounter("tandem_pserver_pushes_total", "Accepted push messages")),
      push_bytes(m.GetCounter("tandem_pserver_push_bytes_total", "Bytes of accepted gradients")),
      duplicates(m.GetCounter("tandem_pserver_push_duplicates_total",
                              "Repeated pushes, which were not applied again")),
      refused(m.GetCounter("tandem_pserver_push_refused_total", "Pushes refused")),
      pulls(m.GetCounter("tandem_pserver_pulls_total", "Pulls answered")),
      pull_bytes(m.GetCounter("tandem_pserver_pull_bytes_total", "Bytes of sent parameters")),
      updates(m.GetCounter("tandem_pserver_updates_total", "Versions made")),
      rejected(m.GetCounter("tandem_pserver_nonfinite_pushes_total", "Pushes with NaN or infinity",
                            {{"outcome", "rejected"}})),
      skipped(m.GetCounter("tandem_pserver_nonfinite_pushes_total", "Pushes with NaN or infinity",
                           {{"outcome", "skipped"}})),
      lost_pushes(m.GetCounter("tandem_pserver_lost_pushes_total",
                               "Pushes that were lost with their trainer and the server")),
      owed(m.GetGauge("tandem_pserver_owed_pushes", "Pushes that a restarted server waits for")),
      barrier_wait(m.GetHistogram("tandem_pserver_barrier_wait_seconds",
                                  "Time a call waited in a barrier", kWaitBounds)),
      pull_wait(m.GetHistogram("tandem_pserver_pull_wait_seconds",
                               "Time a pull waited for its version", kWaitBounds)),
      update_time(m.GetHistogram("tandem_pserver_update_seconds",
                                 "Time to reduce and apply one step or push", kUpdateBounds)),
      staleness(m.GetHistogram("tandem_pserver_staleness_updates",
                               "Updates between a trainer's last pull and its push",
                               kStalenessBounds)),
      hold(m.GetHistogram("tandem_pserver_hold_seconds",
                          "Time without new pushes, for a snapshot of all servers", kWaitBounds)) {}

Shard::Shard(Options options, const Clock& clock, const Backend& backend, Device& device,
             Metrics& metrics)
    : options_(std::move(options)),
      clock_(clock),
      backend_(backend),
      device_(device),
      metrics_(metrics),
      counters_(metrics),
      job_(options_.job),
      trainers_(clock, metrics),
      init_calls_(trainers_),
      pull_calls_(trainers_),
      barriers_(trainers_, clock, counters_.barrier_wait) {}

Shard::~Shard() { Shutdown(); }

void Shard::Run(Ready ready) {
  if (ready.empty()) return;
  WhenLogged([ready = std::move(ready)](const Status& written) {
    for (const auto& callback : ready) callback(written);
  });
}

void Shard::WhenLogged(WriteAheadLog::Written done) {
  const bool early = options_.bug == ShardBug::kAnswersEarly;
  if (options_.log == nullptr || early) return done(OkStatus());
  options_.log->WhenLogged(std::move(done));
}

void Shard::Note(LogEntry::Kind kind, PushHead head, std::vector<Buffer> values) {
  if (options_.log == nullptr || replaying_) return;
  options_.log->Append({++log_number_, kind, std::move(head), std::move(values)});
}

Status Shard::CheckOptions(const ShardConfig& config) const {
  if (!options_.job.empty()) TD_RETURN_IF_ERROR(CheckJob(config.job, options_.job));
  if (options_.trainers != 0 && config.trainers != options_.trainers) {
    return FailedPrecondition(
        "the caller has %d trainers, but this server was started for %d trainers [TD4003]; hint: "
        "use the same number for --trainers and --workers",
        config.trainers, options_.trainers);
  }
  return OkStatus();
}

StatusOr<ConfigureResult> Shard::Configure(const Caller& caller, const ShardConfig& config,
                                           const Agreement& settings) {
  TD_RETURN_IF_ERROR(CheckConfig(config));
  TD_RETURN_IF_ERROR(CheckSettings(settings));
  TD_RETURN_IF_ERROR(CheckOptions(config));
  if (caller.trainer < 0 || caller.trainer >= config.trainers) {
    return InvalidArgument("trainer %d is out of range: ranks are 0 to %d [TD4003]", caller.trainer,
                           config.trainers - 1);
  }
  if (options_.replayable && config.delay_compensation > 0) {
    return FailedPrecondition(
        "enable_dc_asgd is not supported with durability replayable, because retransmitted "
        "gradients are not compensated [TD1108]; hint: --durability=logged");
  }
  MutexLock lock(mu_);
  TD_RETURN_IF_ERROR(broken_);
  // A trainer that configures is going to push.
  if (options_.log != nullptr) TD_RETURN_IF_ERROR(options_.log->Ready(0));
  TD_RETURN_IF_ERROR(AgreeOnSettings(caller, settings));
  if (params_ == nullptr) {
    TD_RETURN_IF_ERROR(SetUp(config));
  } else {
    ShardConfig mine = config_;
    mine.slices = moves_.placed;
    if (may_treat_otherwise_) CopyFaultPolicy(config, mine);
    if (const std::string difference = Difference(config, mine); !difference.empty()) {
      return FailedPrecondition(
          "the configuration of trainer %d differs: %s%s [TD4004]; hint: use one job file for all "
          "trainers, and new directories for a new job",
          caller.trainer, difference, restored_ ? " in the restored checkpoint" : "");
    }
    mine.slices = std::move(config_.slices);
    config_ = std::move(mine);
  }
  may_treat_otherwise_ = false;
  if (Status called = CheckCaller(caller); !called.ok()) {
    // A trainer that configures does not know yet about servers that wait for others.
    return owed_.empty() || !broken_.ok() ? called : DataLoss("%s", std::string(called.message()));
  }
  return ConfigureResult{
      Incarnation(), initialised(),     restored_,           version_,
      moves_.map,    moves_.generation, options_.replayable, options_.keep_bytes_max};
}

// Runs before the caller replaces an older incarnation, which may be active.
Status Shard::AgreeOnSettings(const Caller& caller, const Agreement& settings) {
  const bool is_old = caller.trainer < trainers_.size() &&
                      caller.incarnation < trainers_[caller.trainer].incarnation;
  if (is_old) return OkStatus();  // CheckCaller rejects it
  const auto is_at_work = [this](int other) TD_NO_ANALYSIS {
    if (other >= trainers_.size() || !trainers_.seen(other) || trainers_.Gone(other)) return false;
    return trainers_.Waits(other) || clock_.Now() - trainers_.last_heard(other) < SilenceMax();
  };
  return agreed_.Agree(caller.trainer, settings, SilenceMax(), is_at_work);
}

StatusOr<std::unique_ptr<ShardParams>> Shard::MakeParams(const ShardConfig& config) const {
  const bool own = options_.slices.device != nullptr;
  return ShardParams::Make(config, {.slice_backend = own ? *options_.slices.backend : backend_,
                                    .slice_device = own ? *options_.slices.device : device_,
                                    .row_backend = backend_,
                                    .row_device = device_,
                                    .arena = options_.arena,
                                    .table_memory = options_.table_memory,
                                    .workers = options_.workers});
}

Status Shard::SetUp(const ShardConfig& config) {
  TD_ASSIGN_OR_RETURN(params_, MakeParams(config));
  table_metrics_.emplace(metrics_, params_->tables());
  SetConfig(config);
  moves_.placed = config.slices;
  trainers_.Begin(config.trainers);
  return OkStatus();
}

void Shard::SetConfig(const ShardConfig& config) {
  config_ = config;
  MutexLock lock(job_mu_);
  job_ = config.job;
}

Status Shard::CheckCaller(const Caller& caller) {
  TD_RETURN_IF_ERROR(broken_);
  if (params_ == nullptr) {
    return FailedPrecondition(
        "this server is not configured; %s [TD4005]; hint: use --durability=logged or replayable "
        "to keep pushes over a restart",
        options_.found.empty() ? "it may have been restarted without a checkpoint"
                               : options_.found);
  }
  TD_RETURN_IF_ERROR(CheckJob(caller.job, config_.job));
  if (caller.trainer < 0 || caller.trainer >= config_.trainers) {
    return InvalidArgument("trainer %d is out of range: ranks are 0 to %d", caller.trainer,
                           config_.trainers - 1);
  }
  if (!replaying_) TD_RETURN_IF_ERROR(CheckOwed(caller));
  const uint64_t newest = trainers_[caller.trainer].incarnation;
  if (caller.incarnation < newest) {
    return FailedPrecondition(
        "trainer %d was restarted as incarnation %d, so calls of incarnation %d are rejected "
        "[TD4008]",
        caller.trainer, newest, caller.incarnation);
  }
  if (caller.incarnation > newest) Adopt(caller);
  trainers_.Hear(caller.trainer);
  if (trainers_.lost(caller.trainer)) trainers_.Find(caller.trainer);
  Thaw();
  return OkStatus();
}

void Shard::Adopt(const Caller& caller) {
  Note(LogEntry::Kind::kAdopt, {caller, 0, version_, 0, {}}, {});
  TrainerRegistry::Trainer& t = trainers_[caller.trainer];
  // The pushes kept by the older incarnation are lost, so a checkpoint must soon contain them.
  const bool soon = options_.replayable && !replaying_ && t.incarnation != 0 && initialised();
  if (soon && options_.save_soon) options_.save_soon();
  t.Replace(caller.incarnation, version_);
  params_->DropGathered(caller.trainer);
  // The rate of this step may have been set by the older incarnation.
  if (step_rate_ && step_rate_->first == caller.trainer) step_rate_.reset();
}

Status Shard::Greet(const Caller& caller) {
  MutexLock lock(mu_);
  return CheckCaller(caller);
}

StatusOr<PushTicket> Shard::AdmitPush(const PushHead& head, std::span<const void* const> in_place) {
  MutexLock lock(mu_);
  auto admit = [&]() TD_NO_ANALYSIS -> StatusOr<PushTicket> {
    PushTicket ticket;
    ticket.owed = IsOwed(head);
    if (!ticket.owed) {
      TD_ASSIGN_OR_RETURN(ticket.duplicate, CheckPush(head));
      if (ticket.duplicate) return ticket;
      TD_ASSIGN_OR_RETURN(ticket.slices, params_->FindPush(head, moves_));
    }
    ticket.nonfinite = config_.nonfinite;
    const bool logs = options_.log != nullptr && !options_.replayable;
    // A skipped push is emptied, and the received memory must not be written.
    const bool waits = config_.mode == ShardMode::kSync &&
                       (!CompletesStep(head) || config_.nonfinite == NonfinitePolicy::kSkip);
    const bool keeps = waits || logs || ticket.owed;
    for (size_t i = 0; i < head.slices.size(); ++i) {
      const TensorDesc& desc = head.slices[i].desc;
      if (!keeps && !in_place.empty() && in_place[i] != nullptr && desc.dtype == DType::kF32) {
        auto* const values = static_cast<std::byte*>(const_cast<void*>(in_place[i]));
        ticket.buffers.emplace_back(Buffer(), values);  // not owned
        continue;
      }
      TD_ASSIGN_OR_RETURN(Buffer buffer, params_->slices().pool().Take(desc.bytes()));
      ticket.buffers.push_back(std::move(buffer));
    }
    return ticket;
  };
  StatusOr<PushTicket> ticket = admit();
  if (!ticket.ok()) counters_.refused.Add(1);
  return ticket;
}

StatusOr<bool> Shard::CheckPush(const PushHead& head) {
  TD_RETURN_IF_ERROR(CheckCaller(head.caller));
  if (!initialised()) {
    return FailedPrecondition("a push arrived before all initial parameters (%d of %d slices)",
                              params_->given(), params_->size());
  }
  const TrainerRegistry::Trainer& t = trainers_[head.caller.trainer];
  switch (t.taken.Look(head.sequence)) {
    case SequenceWindow::Seen::kTaken:
      if (options_.bug == ShardBug::kNoDedup) break;
      return true;
    case SequenceWindow::Seen::kTooOld:
      return FailedPrecondition(
          "trainer %d push %d is too old to tell whether it was accepted; the newest push is %d",
          head.caller.trainer, head.sequence, t.taken.highest());
    case SequenceWindow::Seen::kNew:
      break;
  }
  if (head.origin_server != 0) {
    TD_ASSIGN_OR_RETURN(const bool taken, TakenElsewhere(head));
    if (taken) return true;
  }
  // For a completed step, the current owner of the rows does not matter.
  const bool past = config_.mode == ShardMode::kSync && head.step < version_;
  if (!replaying_ && !past) TD_RETURN_IF_ERROR(CheckGeneration(head));
  if (!replaying_) TD_RETURN_IF_ERROR(CheckHeld(head));
  if (!replaying_) TD_RETURN_IF_ERROR(CheckHold(head));
  if (options_.log != nullptr && !replaying_) {
    TD_RETURN_IF_ERROR(options_.log->Ready(options_.replayable ? 0 : ValueBytes(head)));
  }
  if (t.completed) {
    return FailedPrecondition("trainer %d pushes after it has completed the job",
                              head.caller.trainer);
  }
  // The older incarnation completed the step here; other servers still wait for it.
  if (config_.mode == ShardMode::kSync && head.step + 1 == version_ && t.adopted == version_) {
    return true;
  }
  TD_RETURN_IF_ERROR(CheckStep(head));
  return false;
}

Status Shard::CheckStep(const PushHead& head) {
  const int trainer = head.caller.trainer;
  if (!std::isfinite(head.learning_rate)) {
    return InvalidArgument("trainer %d step %d: the learning rate is not finite [TD4013]", trainer,
                           DisplayStep(head.step));
  }
  if (config_.mode != ShardMode::kSync) return OkStatus();
  if (head.step != version_) {
    return FailedPrecondition(
        "trainer %d pushes for step %d, but this server is at step %d%s [TD4015]; hint: restart "
        "the trainers",
        trainer, DisplayStep(head.step), DisplayStep(version_),
        head.step < version_ ? " (the push is stale)" : " (was it restored?)");
  }
  if (step_rate_ &&
      std::bit_cast<uint32_t>(step_rate_->second) != std::bit_cast<uint32_t>(head.learning_rate)) {
    return InvalidArgument("step %d: trainer %d sends learning rate %.9g, but trainer %d sent %.9g",
                           DisplayStep(head.step), trainer, head.learning_rate, step_rate_->first,
                           step_rate_->second);
  }
  return OkStatus();
}

StatusOr<PushOutcome> Shard::Push(const PushHead& head, PushTicket ticket) {
  TD_ASSIGN_OR_RETURN(const bool skip, LookForNonfinite(head, ticket));
  Ready ready;
  PushOutcome result;
  {
    MutexLock lock(mu_);
    // Checked again: the same push or a newer incarnation may have arrived on another thread
    // meanwhile.
    const bool owed = ticket.owed && IsOwed(head);
    if (!owed) {
      TD_ASSIGN_OR_RETURN(result.duplicate, CheckPush(head));
    }
    if (owed) {
      TD_ASSIGN_OR_RETURN(result.log_number, TakeOwed(head, std::move(ticket)));
    } else if (result.duplicate) {
      counters_.duplicates.Add(1);
    } else {
      TD_ASSIGN_OR_RETURN(ticket.slices, params_->FindPush(head, moves_));
      if (Status status = params_->PrepareRows(head, ticket); !status.ok()) {
        counters_.refused.Add(1);
        return status;
      }
      PushHead emptied;
      if (skip) emptied = Emptied(head, ticket);
      TD_RETURN_IF_ERROR(TakePush(skip ? emptied : head, std::move(ticket), ready));
    }
    result.version = version_;
    result.update = update_;
    if (options_.replayable && !owed) result.log_number = HoldsFrom(head.step);
  }
  result.kept_number = kept_number_;
  Run(std::move(ready));
  return result;
}

bool Shard::CompletesStep(const PushHead& head) const {
  for (int r = 0; r < config_.trainers; ++r) {
    if (r != head.caller.trainer && !trainers_[r].completed && !params_->GaveAll(r)) return false;
  }
  return params_->IsWholeStep(head);
}

Status Shard::OwnIfItWaits(const PushHead& head, PushTicket& ticket) {
  if (config_.mode != ShardMode::kSync || CompletesStep(head)) return OkStatus();
  for (size_t i = 0; i < ticket.buffers.size(); ++i) {
    Buffer& buffer = ticket.buffers[i];
    if (buffer.use_count() != 0) continue;
    const size_t bytes = head.slices[i].desc.bytes();
    TD_ASSIGN_OR_RETURN(Buffer own, params_->slices().pool().Take(bytes));
    std::memcpy(own.get(), buffer.get(), bytes);
    buffer = std::move(own);
  }
  return OkStatus();
}

Status Shard::TakePush(const PushHead& head, PushTicket ticket, Ready& ready) {
  TrainerRegistry::Trainer& t = trainers_[head.caller.trainer];
  TD_RETURN_IF_ERROR(OwnIfItWaits(head, ticket));
  if (config_.delay_compensation > 0 && !replaying_) {
    TD_RETURN_IF_ERROR(Compensate(head, ticket));
  }
  NotePush(head, ticket);
  const bool forgets =
      options_.bug == ShardBug::kNoDedup || (options_.bug == ShardBug::kMarksNotKept && replaying_);
  if (!forgets) t.taken.Take(head.sequence);
  t.numbers.Raise(head.numbers);
  t.last_step = head.step;
  ++t.pushes;
  counters_.pushes.Add(1);
  counters_.staleness.Observe(static_cast<double>(version_ - std::min(version_, t.pulled)));
  counters_.push_bytes.Add(static_cast<double>(ValueBytes(head)));
  if (config_.mode == ShardMode::kSync) {
    if (!step_rate_) step_rate_ = {head.caller.trainer, head.learning_rate};
    params_->Gather(head, ticket);
    ApplyStepIfComplete(ready);
    return broken_;
  }
  const Time start = clock_.Now();
  if (Status status = params_->Apply(head, ticket, version_); !status.ok()) {
    Break(status, ready);
    return status;
  }
  Updated(start);
  Advance(ready);
  return OkStatus();
}

void Shard::ApplyStepIfComplete(Ready& ready) {
  std::vector<int> ranks;
  for (int r = 0; r < config_.trainers; ++r) {
    if (params_->GaveAll(r)) {
      ranks.push_back(r);
    } else if (!trainers_[r].completed) {
      return;
    }
  }
  if (!params_->ServesAny() || ranks.empty()) return;
  const Time start = clock_.Now();
  const Status status = params_->ApplyGathered(ranks, step_rate_->second, version_);
  if (!status.ok()) return Break(status, ready);
  has_previous_ = true;
  Updated(start);
  step_rate_.reset();
  Advance(ready);
}

void Shard::Updated(Time begin) {
  update_ = {begin, clock_.Now()};
  counters_.update_time.Observe(Seconds(update_.end - begin));
}

void Shard::Advance(Ready& ready) {
  ++version_;
  counters_.updates.Add(1);
  table_metrics_->Show(params_->tables());
  trainers_.ApplyTaken();
  if (options_.log != nullptr) Settle();
  TryCut(ready);
  // Before the checkpoint, so that calls that wait for this version do not wait for it.
  WakeWaiters(ready);
  if (!replaying_ && options_.checkpoint_every_steps != 0 &&
      version_ % options_.checkpoint_every_steps == 0 && options_.on_checkpoint) {
    CheckpointNow(ready);
  }
}

void Shard::CheckpointNow(Ready& ready) {
  StatusOr<Cut> cut = BeginSnapshot(base_.TakesDelta(options_.checkpoint_deltas));
  if (!cut.ok()) {
    LOG(ERROR) << "cannot write a checkpoint of version " << version_ << ": "
               << ToString(cut.status());
    return;
  }
  ready.push_back(
      [this, version = version_, copy = CopyOf(*std::move(cut))](const Status& written) mutable {
        const SnapshotFn now = std::exchange(copy, nullptr);
        if (written.ok()) options_.on_checkpoint(version, now);
      });
}

void Shard::Settle() {
  settled_number_ = log_number_;
  trainers_.Settle();
}

void Shard::Break(const Status& status, Ready& ready) {
  broken_ = Internal("an update failed and left the parameters incomplete: %s", ToString(status));
  LOG(ERROR) << broken_.message();
  FailAllWaiters(broken_, ready);
}

void Shard::CompleteTrainer(int trainer, Ready& ready) {
  trainers_[trainer].completed = true;
  // A partial gradient does not count.
  if (!params_->GaveAll(trainer)) params_->DropGathered(trainer);
  ApplyStepIfComplete(ready);
  WakeWaiters(ready);
  barriers_.Wake(ready);
}

StatusOr<int> Shard::Complete(const Caller& caller) {
  Ready ready;
  int left = 0;
  {
    MutexLock lock(mu_);
    TD_RETURN_IF_ERROR(CheckCaller(caller));
    if (!trainers_[caller.trainer].completed) {
      Note(LogEntry::Kind::kComplete, {caller, 0, 0, 0, {}}, {});
      CompleteTrainer(caller.trainer, ready);
    }
    for (const TrainerRegistry::Trainer& other : trainers_) left += !other.completed;
  }
  Run(std::move(ready));
  return left;
}

}  // namespace tandem::pserver
