// The waiting half of Shard: pulls, barriers, deadlines and lost trainers.
#include <algorithm>
#include <utility>

#include "pserver/shard.h"

namespace tandem {
namespace {

constexpr size_t kBarriersMax = 1024;
constexpr size_t kWaitersMax = 65536;

// "trainer 1", "trainers 1, 3"; "nobody" when empty.
std::string TrainerList(const std::vector<int>& trainers) {
  if (trainers.empty()) return "nobody";
  std::string text = trainers.size() == 1 ? "trainer " : "trainers ";
  for (size_t i = 0; i < trainers.size(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(trainers[i]);
  }
  return text;
}

// Nobody pushes to such a server any more: it stays where it is.
Status NoRows() { return OutOfRange("this server gave all its rows away"); }

}  // namespace

void Shard::SetTrainers(int count) {
  trainers_.assign(count, {});
  for (int r = 0; r < count; ++r) {
    trainers_[r].last_seen = clock_.Now();
    trainers_[r].waited = &metrics_.GetCounter("tandem_pserver_wait_seconds_total",
                                               "Time that a trainer's calls waited for others",
                                               {{"trainer", std::to_string(r)}});
  }
}

void Shard::BeginWait(int trainer) {
  if (trainer < 0) return;  // an observer
  Trainer& t = trainers_[trainer];
  if (t.waiting++ == 0) t.waits_since = clock_.Now();
  counters_.waiting.Set(++waiting_);
}

void Shard::EndWait(const Waiter& waiter) {
  if (waiter.trainer < 0) return;
  Trainer& t = trainers_[waiter.trainer];
  t.last_seen = clock_.Now();
  if (--t.waiting == 0) {
    const double waited = Seconds(t.last_seen - t.waits_since);
    t.waited->Add(waited);
    t.waited_recently.Add(t.last_seen, waited);
  }
  counters_.waiting.Set(--waiting_);
}

// A trainer asks for no more than it did itself. A server that was started again, or got its first
// bucket, has not seen those pushes.
void Shard::Hear(int trainer, uint64_t min_step, Ready& ready) {
  uint64_t& told = trainers_[trainer].told;
  if (min_step <= told) return;
  told = min_step;
  WakeWaiters(ready);
}

void Shard::WaitInit(const Caller& caller, Time deadline, Done<uint64_t> done) {
  StatusOr<uint64_t> now;
  {
    MutexLock lock(mu_);
    if (Status status = CheckCaller(caller); !status.ok()) {
      now = status;
    } else if (initialised()) {
      now = version_;
    } else if (init_waiters_.size() >= kWaitersMax) {
      now = ResourceExhausted("%d calls wait already", init_waiters_.size());
    } else {
      BeginWait(caller.trainer);
      init_waiters_.push_back({{caller.trainer, clock_.Now(), deadline}, std::move(done)});
      return;
    }
  }
  WhenWritten([done = std::move(done), now = std::move(now)](const Status& written) {
    done(!now.ok() || written.ok() ? now : written);
  });
}

bool Shard::CanAnswer(const PullQuery& query) const {
  return initialised() && version_ >= query.min_version &&
         (query.min_step == 0 || Behind(query.min_step).empty());
}

std::vector<int> Shard::Behind(uint64_t steps) const {
  std::vector<int> behind;
  for (int r = 0; r < static_cast<int>(trainers_.size()); ++r) {
    const Trainer& t = trainers_[r];
    const uint64_t pushed = t.pushes == 0 ? 0 : t.last_step + 1;
    if (!Gone(t) && std::max(pushed, t.told) < steps) behind.push_back(r);
  }
  return behind;
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
    return FailedPrecondition("version %d is asked for; this server is at version %d",
                              result.version, version_);
  }
  DenseTable& slices = params_->slices();
  auto add = [&](int slice, int64_t offset, int64_t numel) TD_NO_ANALYSIS -> Status {
    const SliceSpec& spec = slices.spec(slice);
    Buffer values = slices.Previous(slice);
    if (previous && values == nullptr) {
      return FailedPrecondition("nobody has %s of version %d any more", spec.variable,
                                result.version);
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

void Shard::Pull(const PullQuery& query, Time deadline, Done<PullResult> done) {
  StatusOr<PullResult> now;
  Ready ready;
  bool waits = false;
  {
    MutexLock lock(mu_);
    Status status = broken_;
    if (status.ok() && query.observer) status = Waits();
    if (status.ok() && query.observer) {
      status = params_ == nullptr ? FailedPrecondition("the first values are not there")
                                  : CheckJob(query.caller.job, config_.job);
    }
    if (status.ok() && !query.observer) status = CheckCaller(query.caller);
    // Unknown variables are said at once, not when the version is there.
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
    } else if (pull_waiters_.size() >= kWaitersMax) {
      now = ResourceExhausted("%d pulls wait already", pull_waiters_.size());
    } else {
      const int trainer = query.observer ? -1 : query.caller.trainer;
      BeginWait(trainer);
      pull_waiters_.push_back({{trainer, clock_.Now(), deadline}, query, std::move(done)});
      waits = true;
    }
  }
  Run(std::move(ready));
  if (waits) return;
  WhenWritten([done = std::move(done), now = std::move(now)](const Status& written) {
    done(!now.ok() || written.ok() ? now : written);
  });
}

void Shard::Barrier(const Caller& caller, const std::string& name, uint64_t generation,
                    Time deadline, std::function<void(Status)> done) {
  Ready ready;
  Status now;
  {
    MutexLock lock(mu_);
    now = CheckCaller(caller);
    if (now.ok() && (name.empty() || name.size() > 200)) {
      now = InvalidArgument("barrier name of %d characters; expected 1 to 200", name.size());
    }
    if (now.ok() && generation == 0) now = InvalidArgument("barrier generations count from 1");
    if (now.ok() && !barriers_.contains(name) && barriers_.size() >= kBarriersMax) {
      now = ResourceExhausted("barrier \"%s\": there are %d barriers already", name, kBarriersMax);
    }
    if (now.ok() && trainers_[caller.trainer].completed) {
      now = FailedPrecondition("trainer %d enters barrier \"%s\" after it completed",
                               caller.trainer, name);
    }
    if (now.ok() && barriers_[name].waiters.size() >= kWaitersMax) {
      now = ResourceExhausted("barrier \"%s\": %d calls wait already", name, kWaitersMax);
    }
    if (now.ok() && generation > barriers_[name].released) {
      BeginWait(caller.trainer);
      barriers_[name].waiters.push_back(
          {{caller.trainer, clock_.Now(), deadline}, generation, std::move(done)});
      WakeBarriers(ready);
    } else {
      ready.push_back(
          [done = std::move(done), now](const Status& written) { done(now.ok() ? written : now); });
    }
  }
  Run(std::move(ready));
}

void Shard::WakeWaiters(Ready& ready) {
  if (!initialised()) return;
  for (InitWaiter& w : init_waiters_) {
    EndWait(w);
    ready.push_back([done = std::move(w.done), version = version_](const Status& written) {
      done(written.ok() ? StatusOr<uint64_t>(version) : written);
    });
  }
  init_waiters_.clear();
  for (auto it = pull_waiters_.begin(); it != pull_waiters_.end();) {
    if (!CanAnswer(it->query)) {
      ++it;
      continue;
    }
    EndWait(*it);
    counters_.pull_wait.Observe(Seconds(clock_.Now() - it->since));
    ready.push_back([done = std::move(it->done), result = MakePull(it->query)](
                        const Status& written) { done(written.ok() ? result : written); });
    it = pull_waiters_.erase(it);
  }
}

std::vector<int> Shard::MissingAtBarrier(const BarrierState& barrier) const {
  std::vector<int> missing;
  for (int r = 0; r < static_cast<int>(trainers_.size()); ++r) {
    const bool here = std::any_of(barrier.waiters.begin(), barrier.waiters.end(),
                                  [r](const BarrierWaiter& w) { return w.trainer == r; });
    if (!here && !Gone(trainers_[r])) missing.push_back(r);
  }
  return missing;
}

void Shard::WakeBarriers(Ready& ready) {
  for (auto& [name, barrier] : barriers_) {
    if (barrier.waiters.empty() || !MissingAtBarrier(barrier).empty()) continue;
    for (BarrierWaiter& w : barrier.waiters) {
      EndWait(w);
      barrier.released = std::max(barrier.released, w.generation);
      counters_.barrier_wait.Observe(Seconds(clock_.Now() - w.since));
      ready.push_back([done = std::move(w.done)](const Status& written) { done(written); });
    }
    barrier.waiters.clear();
  }
}

// Fails those for which `why(waiter)` is not OK.
template <typename List, typename Why>
void Shard::FailSome(List& list, Ready& ready, const Why& why) {
  for (auto it = list.begin(); it != list.end();) {
    const Status status = why(*it);
    if (status.ok()) {
      ++it;
      continue;
    }
    EndWait(*it);
    ready.push_back([done = std::move(it->done), status](const Status&) { done(status); });
    it = list.erase(it);
  }
}

void Shard::FailAllWaiters(const Status& status, Ready& ready) {
  const auto all = [&status](const Waiter&) { return status; };
  FailSome(init_waiters_, ready, all);
  FailSome(pull_waiters_, ready, all);
  for (auto& [name, barrier] : barriers_) FailSome(barrier.waiters, ready, all);
}

void Shard::FailGonePulls(Ready& ready) {
  FailSome(pull_waiters_, ready, [this](const PullWaiter& w) TD_NO_ANALYSIS -> Status {
    for (const PullRange& range : w.query.ranges) {
      TD_RETURN_IF_ERROR(FindRange(range).status());
    }
    return w.query.rows.empty() || !HasNoRows() ? OkStatus() : NoRows();
  });
}

std::vector<int> Shard::MissingAtStep() const {
  std::vector<int> missing;
  for (int r = 0; r < static_cast<int>(trainers_.size()); ++r) {
    if (!trainers_[r].completed && !params_->GaveAll(r)) missing.push_back(r);
  }
  return missing;
}

Status Shard::PullDeadline(const PullWaiter& w, Time now) const {
  const double waited = Seconds(now - w.since);
  if (!initialised()) {
    return DeadlineExceeded(
        "pull: waiting %.1f s for the first values from trainer 0 (%d of %d slices are there)",
        waited, params_->given(), params_->size());
  }
  if (const auto behind = Behind(w.query.min_step); !behind.empty()) {
    return DeadlineExceeded(
        "pull: waiting %.1f s for %s, not at step %d yet (max_staleness) [TD4007]", waited,
        TrainerList(behind), w.query.min_step);
  }
  if (config_.mode != ShardMode::kSync) {
    return DeadlineExceeded("pull of version %d: waiting %.1f s, this server is at version %d",
                            w.query.min_version, waited, version_);
  }
  const std::vector<int> missing = MissingAtStep();
  const bool all = missing.size() == trainers_.size();
  return DeadlineExceeded("pull of version %d: waiting %.1f s for %s at step %d%s [TD4007]",
                          w.query.min_version, waited, TrainerList(missing), version_,
                          all ? "" : "; others arrived");
}

std::vector<int> Shard::Awaited() const {
  std::vector<bool> awaited(trainers_.size(), false);
  if (!init_waiters_.empty() && !trainers_.empty()) awaited[0] = true;
  if (!pull_waiters_.empty() && config_.mode == ShardMode::kSync && initialised()) {
    for (int r : MissingAtStep()) awaited[r] = true;
  }
  for (const PullWaiter& w : pull_waiters_) {
    for (int r : Behind(w.query.min_step)) awaited[r] = true;
  }
  for (const auto& [name, barrier] : barriers_) {
    if (barrier.waiters.empty()) continue;
    for (int r : MissingAtBarrier(barrier)) awaited[r] = true;
  }
  std::vector<int> list;
  for (int r = 0; r < static_cast<int>(trainers_.size()); ++r) {
    // One that waits here itself is alive: somebody else is the cause.
    if (awaited[r] && trainers_[r].waiting == 0) list.push_back(r);
  }
  return list;
}

Status Shard::LostTrainer(Time now) const {
  for (int r : Awaited()) {
    const Trainer& t = trainers_[r];
    const Duration silent = now - t.last_seen;
    if (silent < SilenceMax()) continue;
    return Aborted(
        "trainer %d is lost: nothing heard from it for %.1f s (%s); others wait for it "
        "at step %d [TD4006]",
        r, Seconds(silent),
        t.pushes != 0 ? absl::StrFormat("its last push was for step %d", t.last_step)
        : t.seen      ? "it pushed nothing yet"
                      : "it never called",
        version_);
  }
  return OkStatus();
}

void Shard::ExpireWaiters() {
  Ready ready;
  {
    MutexLock lock(mu_);
    const Time now = clock_.Now();
    LoseSilentTrainers(now, ready);
    ExpireHold(now, ready);
    if (const Status lost = LostTrainer(now); !lost.ok()) FailAllWaiters(lost, ready);
    FailSome(init_waiters_, ready, [&](const InitWaiter& w) TD_NO_ANALYSIS -> Status {
      if (w.deadline > now) return OkStatus();
      return DeadlineExceeded(
          "waiting %.1f s for the first values from trainer 0 (%d of %d slices are there)",
          Seconds(now - w.since), params_->given(), params_->size());
    });
    FailSome(pull_waiters_, ready, [&](const PullWaiter& w) TD_NO_ANALYSIS -> Status {
      return w.deadline > now ? OkStatus() : PullDeadline(w, now);
    });
    for (auto& [name, barrier] : barriers_) {
      const std::string missing = TrainerList(MissingAtBarrier(barrier));
      FailSome(barrier.waiters, ready, [&, &name = name](const BarrierWaiter& w) -> Status {
        if (w.deadline > now) return OkStatus();
        return DeadlineExceeded("barrier \"%s\": waiting %.1f s for %s; others arrived [TD4007]",
                                name, Seconds(now - w.since), missing);
      });
    }
  }
  Run(std::move(ready));
}

Time Shard::NextDeadline() const {
  MutexLock lock(mu_);
  Time next = hold_.order ? hold_.until : Time::max();
  for (const InitWaiter& w : init_waiters_) next = std::min(next, w.deadline);
  for (const PullWaiter& w : pull_waiters_) next = std::min(next, w.deadline);
  for (const auto& [name, barrier] : barriers_) {
    for (const BarrierWaiter& w : barrier.waiters) next = std::min(next, w.deadline);
  }
  for (const Trainer& t : trainers_) {
    if (CanBeLost(t)) next = std::min(next, t.last_seen + config_.lost_after);
  }
  if (next == Time::max()) return next;
  for (int r : Awaited()) next = std::min(next, trainers_[r].last_seen + SilenceMax());
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

}  // namespace tandem
