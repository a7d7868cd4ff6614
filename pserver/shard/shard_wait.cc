// The part of Shard for waiting calls: pulls, barriers, deadlines and lost trainers.
#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "common/base/step_number.h"
#include "pserver/shard/shard.h"

namespace tandem::pserver {
namespace {

constexpr Duration kTellEvery = std::chrono::seconds(1);

// Trainers no longer push to such a server, so its version does not change.
Status NoRows() {
  return OutOfRange("this server has no rows, because all its rows moved to other servers");
}

}  // namespace

// A trainer requests no step that it has not pushed itself. A server that was restarted, or
// received its first bucket, has not seen those pushes.
void Shard::Hear(int trainer, uint64_t min_step, Ready& ready) {
  uint64_t& told = trainers_[trainer].told;
  if (min_step <= told) return;
  told = min_step;
  WakeWaiters(ready);
}

void Shard::WaitInit(const Caller& caller, Time deadline, Done<uint64_t> done, const void* tag) {
  StatusOr<uint64_t> now;
  {
    MutexLock lock(mu_);
    if (Status status = CheckCaller(caller); !status.ok()) {
      now = status;
    } else if (initialised()) {
      now = version_;
    } else if (init_calls_.size() >= init_calls_.kCallsMax) {
      now = ResourceExhausted(
          "%d calls already wait for the initial parameters, which is the maximum",
          init_calls_.size());
    } else {
      init_calls_.Add(
          {{caller.trainer, clock_.Now(), deadline, caller.incarnation, tag}, std::move(done)});
      return;
    }
  }
  WhenLogged([done = std::move(done), now = std::move(now)](const Status& written) {
    done(!now.ok() || written.ok() ? now : written);
  });
}

bool Shard::CanAnswer(const PullQuery& query) const {
  return initialised() && version_ >= query.min_version &&
         (query.min_step == 0 || trainers_.Behind(query.min_step).empty());
}

bool Shard::HasNoRows() const {
  return sync() ? Idle() : params_->tables().size() != 0 && !params_->ServesRows();
}

StatusOr<PullResult> Shard::MakePull(const PullQuery& query) {
  PullResult result;
  result.version = query.at_version.value_or(version_);
  result.server_incarnation = Incarnation();
  result.update = update_;
  const bool previous = result.version != version_;
  const bool kept = result.version + 1 == version_ && has_previous_;
  if (previous && !kept) {
    return FailedPrecondition("version %d was requested, but this server is at version %d",
                              result.version, version_);
  }
  DenseTable& slices = params_->slices();
  auto add = [&](int slice, int64_t offset, int64_t numel) TD_NO_ANALYSIS -> Status {
    const SliceSpec& spec = slices.spec(slice);
    Buffer values = slices.Previous(slice);
    if (previous && values == nullptr) {
      return FailedPrecondition("%s of version %d is no longer available on a server",
                                spec.variable, result.version);
    }
    if (!previous) {
      TD_ASSIGN_OR_RETURN(values, slices.Snapshot(slice));
    }
    result.slices.push_back({spec.variable, offset, numel, std::move(values),
                             static_cast<size_t>(offset - spec.offset)});
    counters_.pull_bytes.Add(static_cast<double>(numel) * sizeof(float));
    if (config_.delay_compensation > 0 && !query.observer) {
      slices.Pulled(slice, query.caller.trainer, result.slices.back().values);
    }
    return OkStatus();
  };
  if (query.ranges.empty() && query.rows.empty()) {
    for (size_t i = 0; i < slices.size(); ++i) {
      const SliceSpec& spec = slices.spec(static_cast<int>(i));
      if (!slices.served(static_cast<int>(i))) continue;
      TD_RETURN_IF_ERROR(add(static_cast<int>(i), spec.offset, spec.numel));
    }
  }
  for (const PullRange& range : query.ranges) {
    TD_ASSIGN_OR_RETURN(const int slice, FindRange(range));
    TD_RETURN_IF_ERROR(add(slice, range.offset, range.numel));
  }
  for (const PullRows& rows : query.rows) TD_RETURN_IF_ERROR(AddRows(rows, previous, result));
  counters_.pulls.Add(1);
  if (!query.observer) trainers_[query.caller.trainer].pulled = version_;
  return result;
}

void Shard::Pull(const PullQuery& query, Time deadline, Done<PullResult> done, const void* tag) {
  StatusOr<PullResult> now;
  Ready ready;
  bool waits = false;
  {
    MutexLock lock(mu_);
    Status status = broken_;
    if (status.ok() && query.observer) status = Waits();
    if (status.ok() && query.observer) {
      status = params_ == nullptr
                   ? FailedPrecondition("the parameters of this server are not initialised yet")
                   : CheckJob(query.caller.job, config_.job);
    }
    if (status.ok() && !query.observer) status = CheckCaller(query.caller);
    // Unknown variables are reported immediately, not when the version is available.
    for (size_t i = 0; status.ok() && i < query.ranges.size(); ++i) {
      status = FindRange(query.ranges[i]).status();
    }
    for (size_t i = 0; status.ok() && i < query.rows.size(); ++i) {
      status = params_->CheckRows(query.rows[i]);
    }
    if (status.ok() && !query.observer) Hear(query.caller.trainer, query.min_step, ready);
    if (!status.ok()) {
      now = status;
    } else if (CanAnswer(query)) {
      now = MakePull(query);
    } else if (initialised() && HasNoRows() && !query.rows.empty()) {
      now = NoRows();
    } else if (pull_calls_.size() >= pull_calls_.kCallsMax) {
      now = ResourceExhausted("%d pulls already wait, which is the maximum", pull_calls_.size());
    } else {
      const int trainer = query.observer ? -1 : query.caller.trainer;
      pull_calls_.Add({{trainer, clock_.Now(), deadline, query.caller.incarnation, tag},
                       query,
                       std::move(done)});
      waits = true;
    }
  }
  Run(std::move(ready));
  if (waits) return;
  WhenLogged([done = std::move(done), now = std::move(now)](const Status& written) {
    done(!now.ok() || written.ok() ? now : written);
  });
}

void Shard::Barrier(const Caller& caller, const std::string& name, uint64_t generation,
                    Time deadline, std::function<void(Status)> done, const void* tag) {
  Ready ready;
  {
    MutexLock lock(mu_);
    if (Status refused = CheckCaller(caller); !refused.ok()) {
      ready.push_back([done = std::move(done), refused](const Status&) { done(refused); });
    } else {
      barriers_.Enter(name,
                      {{caller.trainer, clock_.Now(), deadline, caller.incarnation, tag},
                       generation,
                       std::move(done)},
                      ready);
    }
  }
  Run(std::move(ready));
}

void Shard::Leave(const void* tag) {
  Ready ready;
  {
    MutexLock lock(mu_);
    init_calls_.Leave(tag, ready);
    pull_calls_.Leave(tag, ready);
    barriers_.Leave(tag, ready);
  }
  Run(std::move(ready));
}

bool Shard::HasReplaced() const {
  return init_calls_.HasReplaced() || pull_calls_.HasReplaced() || barriers_.HasReplaced();
}

void Shard::FailReplaced(Ready& ready) {
  init_calls_.FailReplaced(ready);
  pull_calls_.FailReplaced(ready);
  barriers_.FailReplaced(ready);
}

void Shard::WakeWaiters(Ready& ready) {
  if (!initialised()) return;
  init_calls_.TakeIf(
      [](const InitCall&) { return true; },
      [&](InitCall& call) TD_NO_ANALYSIS {
        ready.push_back([done = std::move(call.done), version = version_](const Status& written) {
          done(written.ok() ? StatusOr<uint64_t>(version) : written);
        });
      });
  pull_calls_.TakeIf(
      [&](const PullCall& call) TD_NO_ANALYSIS { return CanAnswer(call.query); },
      [&](PullCall& call) TD_NO_ANALYSIS {
        counters_.pull_wait.Observe(Seconds(clock_.Now() - call.since));
        ready.push_back([done = std::move(call.done), result = MakePull(call.query)](
                            const Status& written) { done(written.ok() ? result : written); });
      });
}

void Shard::FailAllWaiters(const Status& status, Ready& ready) {
  init_calls_.FailAll(status, ready);
  pull_calls_.FailAll(status, ready);
  barriers_.FailAll(status, ready);
}

void Shard::FailGonePulls(Ready& ready) {
  pull_calls_.FailIf(
      [this](const PullCall& call) TD_NO_ANALYSIS -> Status {
        for (const PullRange& range : call.query.ranges) {
          TD_RETURN_IF_ERROR(FindRange(range).status());
        }
        return call.query.rows.empty() || !HasNoRows() ? OkStatus() : NoRows();
      },
      ready);
}

std::vector<int> Shard::MissingAtStep() const {
  std::vector<int> missing;
  for (int r = 0; r < trainers_.size(); ++r) {
    if (!trainers_[r].completed && !params_->GaveAll(r)) missing.push_back(r);
  }
  return missing;
}

Status Shard::InitDeadline(const InitCall& call, Time now) const {
  return DeadlineExceeded(
      "waited %.1f s for the initial parameters of trainer 0 (%d of %d slices arrived) [TD4007]",
      Seconds(now - call.since), params_->given(), params_->size());
}

Status Shard::PullDeadline(const PullCall& call, Time now) const {
  const double waited = Seconds(now - call.since);
  if (!initialised()) {
    return DeadlineExceeded(
        "pull: waited %.1f s for the initial parameters of trainer 0 (%d of %d slices arrived) "
        "[TD4007]",
        waited, params_->given(), params_->size());
  }
  if (const auto behind = trainers_.Behind(call.query.min_step); !behind.empty()) {
    return DeadlineExceeded(
        "pull: waited %.1f s for %s, which has not reached step %d (max_staleness) [TD4007]",
        waited, TrainerList(behind), DisplayStep(call.query.min_step));
  }
  if (config_.mode != ShardMode::kSync) {
    return DeadlineExceeded(
        "pull of version %d: waited %.1f s, but this server is at version %d [TD4007]",
        call.query.min_version, waited, version_);
  }
  const std::vector<int> missing = MissingAtStep();
  const bool all = std::ssize(missing) == trainers_.size();
  // If a client waits for its own push, the message names the missing gradients.
  std::string lacks;
  if (missing.size() == 1 && !params_->GaveNothing(missing[0])) {
    lacks = ", which did not push a gradient of " + absl::StrJoin(params_->Lacks(missing[0]), ", ");
  }
  return DeadlineExceeded("pull of version %d: waited %.1f s for %s at step %d%s%s [TD4007]",
                          call.query.min_version, waited, TrainerList(missing),
                          DisplayStep(version_), lacks, all ? "" : "; the others arrived");
}

std::vector<int> Shard::Awaited() const {
  std::vector<bool> awaited(static_cast<size_t>(trainers_.size()), false);
  if (!init_calls_.empty() && !awaited.empty()) awaited[0] = true;
  if (!pull_calls_.empty() && config_.mode == ShardMode::kSync && initialised()) {
    for (int r : MissingAtStep()) awaited[r] = true;
  }
  for (const PullCall& call : pull_calls_) {
    for (int r : trainers_.Behind(call.query.min_step)) awaited[r] = true;
  }
  for (int r : barriers_.Missing()) awaited[r] = true;
  std::vector<int> list;
  for (int r = 0; r < trainers_.size(); ++r) {
    // A trainer with a waiting call here is alive: another one is the cause.
    if (awaited[r] && !trainers_.Waits(r)) list.push_back(r);
  }
  return list;
}

std::vector<int> Shard::SilentTrainers(Time now) const {
  std::vector<int> silent = Awaited();
  std::erase_if(silent,
                [&](int r) TD_NO_ANALYSIS { return now - trainers_.last_heard(r) < SilenceMax(); });
  return silent;
}

Status Shard::LostTrainer(Time now) const {
  const std::vector<int> silent = SilentTrainers(now);
  if (silent.empty()) return OkStatus();
  const int r = silent[0];
  const TrainerRegistry::Trainer& t = trainers_[r];
  return Aborted(
      "trainer %d is lost: no call for %.1f s (%s); the other trainers wait for it at step %d "
      "[TD4006]; hint: look at its log",
      r, Seconds(now - trainers_.last_heard(r)),
      t.pushes != 0 ? absl::StrFormat("its last push was for step %d", DisplayStep(t.last_step))
      : trainers_.seen(r) ? "it has not pushed yet"
                          : "it never called",
      DisplayStep(version_));
}

void Shard::ExpireWaiters() {
  Ready ready;
  std::vector<std::pair<int, Duration>> silent;
  {
    MutexLock lock(mu_);
    const Time now = clock_.Now();
    FailReplaced(ready);
    LoseSilentTrainers(now, ready);
    ExpireHold(now, ready);
    for (const int r : SilentTrainers(now)) {
      // A trainer that has not called yet may be starting.
      if (trainers_.seen(r)) silent.emplace_back(r, now - trainers_.last_heard(r));
    }
    const Status lost = LostTrainer(now);
    if (options_.replaces) silent_told_ = now;
    if (!lost.ok() && !options_.replaces) FailAllWaiters(lost, ready);
    init_calls_.FailIf(
        [&](const InitCall& call)
            TD_NO_ANALYSIS { return call.deadline > now ? OkStatus() : InitDeadline(call, now); },
        ready);
    pull_calls_.FailIf(
        [&](const PullCall& call) TD_NO_ANALYSIS {
          if (call.deadline > now) return OkStatus();
          return lost.ok() ? PullDeadline(call, now) : lost;
        },
        ready);
    barriers_.Expire(now, ready);
  }
  // Before waiting calls fail, because their callers may then exit.
  for (const auto& [trainer, time] : silent) {
    if (options_.on_silent) options_.on_silent(trainer, time);
  }
  Run(std::move(ready));
}

Time Shard::NextDeadline() const {
  MutexLock lock(mu_);
  if (HasReplaced()) return clock_.Now();
  Time next = hold_.order ? hold_.until : Time::max();
  next = std::min(
      {next, init_calls_.NextDeadline(), pull_calls_.NextDeadline(), barriers_.NextDeadline()});
  if (LosesTrainers()) next = std::min(next, trainers_.NextLoss(config_.lost_after));
  if (next == Time::max()) return next;
  for (int r : Awaited()) {
    const Time tell = silent_told_ == Time::min() ? silent_told_ : silent_told_ + kTellEvery;
    next = std::min(next, std::max(trainers_.last_heard(r) + SilenceMax(), tell));
  }
  return next;
}

void Shard::Shutdown() {
  Ready ready;
  {
    MutexLock lock(mu_);
    if (broken_.ok()) broken_ = Unavailable("this server is shutting down");
    FailAllWaiters(broken_, ready);
    EndHold(broken_, ready);
  }
  Run(std::move(ready));
}

}  // namespace tandem::pserver
