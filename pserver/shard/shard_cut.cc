// The part of Shard for global snapshots: a state in which each acknowledged push is on all of its
// servers or on none (docs/internals/global-snapshot.md).
//
// The coordinator makes all servers hold new pushes and collects the pushes that each accepted. For
// each trainer, the numbers in the newest of these pushes define the snapshot, by server. A server
// waits for the missing pushes before these numbers, then makes its snapshot. Leases only limit the
// waiting time. The numbers alone ensure that the snapshot is consistent.
#include <algorithm>
#include <utility>

#include "pserver/shard/shard.h"

namespace tandem::pserver {
namespace {

void RaiseTo(const std::vector<uint64_t>& told, std::vector<uint64_t>& known) {
  if (known.size() < told.size()) known.resize(told.size());
  for (size_t i = 0; i < told.size(); ++i) known[i] = std::max(known[i], told[i]);
}

}  // namespace

void SentNumbers::Raise(const SentNumbers& other) {
  RaiseTo(other.sent, sent);
  RaiseTo(other.ended, ended);
}

uint64_t SentNumbers::At(const std::vector<uint64_t>& numbers, int server) {
  const auto index = static_cast<size_t>(server);
  return index < numbers.size() ? numbers[index] : 0;
}

Status Shard::CheckCuttable(const std::string& job) const {
  TD_RETURN_IF_ERROR(broken_);
  TD_RETURN_IF_ERROR(Waits());
  if (!initialised())
    return FailedPrecondition("snapshot: the parameters of this server are not initialised yet");
  TD_RETURN_IF_ERROR(CheckJob(job, config_.job));
  if (config_.mode == ShardMode::kSync) {
    return FailedPrecondition(
        "a snapshot of all servers is not needed in sync mode, where checkpoints of one version "
        "are consistent; hint: tandem save, or --checkpoint_every_steps of the pservers");
  }
  if (!frozen_.moves.empty() || !moves_.offered.empty()) {
    return Unavailable(
        "snapshot: servers are transferring rows; hint: try again after the migration");
  }
  return OkStatus();
}

void Shard::HasCut(uint64_t cut) {
  MutexLock lock(mu_);
  last_cut_ = std::max(last_cut_, cut);
}

StatusOr<PausedState> Shard::HoldPushes(const std::string& job, uint64_t cut, Duration lease,
                                        uint64_t taker) {
  Ready ready;
  const auto hold = [&]() TD_NO_ANALYSIS -> StatusOr<PausedState> {
    const Time now = clock_.Now();
    Thaw();
    ExpireHold(now, ready);
    TD_RETURN_IF_ERROR(CheckCuttable(job));
    if (cut <= last_cut_) {
      return FailedPrecondition(
          "snapshot %d: the number must be higher than the last one, %d [TD4020]; hint: run tandem "
          "save --cut, which chooses the number",
          cut, last_cut_);
    }
    const bool same = hold_.cut == cut && hold_.taker == taker && !hold_.order;
    if (hold_.cut != 0 && !same) {
      return Unavailable("snapshot %d is in progress; hint: try again later", hold_.cut);
    }
    PausedState answer{{}, moves_.map};
    for (int r = 0; r < config_.trainers; ++r) {
      const TrainerRegistry::Trainer& t = trainers_[r];
      if (SentNumbers::At(t.numbers.sent, options_.index) < t.taken.highest()) {
        return FailedPrecondition(
            "trainer %d does not number its messages (PushRequest.sent), which a snapshot needs "
            "[TD6022]; hint: use a client of this version",
            r);
      }
      answer.marks.push_back({r, t.incarnation, t.completed, t.numbers});
    }
    if (hold_.cut == 0) {
      hold_ = {.cut = cut, .taker = taker, .since = now, .until = {}, .order = {}, .done = {}};
    }
    hold_.until = now + lease;
    return answer;
  };
  StatusOr<PausedState> answer;
  {
    MutexLock lock(mu_);
    answer = hold();
  }
  Run(std::move(ready));
  return answer;
}

void Shard::ReleasePushes(const std::string& job, uint64_t cut, uint64_t taker) {
  Ready ready;
  {
    MutexLock lock(mu_);
    const bool others = hold_.cut == cut && hold_.taker != taker;
    if (job != config_.job || others) return;
    last_cut_ = std::max(last_cut_, cut);
    if (hold_.cut == cut) EndHold(Aborted("snapshot %d was abandoned", cut), ready);
  }
  Run(std::move(ready));
}

void Shard::EndHold(const Status& why, Ready& ready) {
  if (hold_.cut == 0) return;
  last_cut_ = std::max(last_cut_, hold_.cut);
  counters_.hold.Observe(Seconds(std::min(clock_.Now(), hold_.until) - hold_.since));
  if (hold_.order) {
    ready.push_back([done = std::move(hold_.done), why](const Status&) { done(why); });
  }
  hold_ = {};
}

void Shard::ExpireHold(Time now, Ready& ready) {
  if (hold_.cut == 0 || now < hold_.until) return;
  const Status missing = hold_.order ? CheckCut() : OkStatus();
  EndHold(DeadlineExceeded("snapshot %d timed out after %.1f s: %s", hold_.cut,
                           Seconds(now - hold_.since), std::string(missing.message())),
          ready);
}

// OK, or the reason why this new push must be sent again later.
Status Shard::CheckHold(const PushHead& head) {
  if (hold_.cut == 0 || clock_.Now() >= hold_.until) return OkStatus();
  if (options_.bug == ShardBug::kHoldsNothing) return OkStatus();
  if (hold_.order) {
    const SnapshotFrontier& mark = hold_.order->marks[static_cast<size_t>(head.caller.trainer)];
    if (mark.incarnation == head.caller.incarnation &&
        head.sequence <= SentNumbers::At(mark.numbers.sent, options_.index)) {
      return OkStatus();
    }
  }
  return OutOfRange("trainer %d push %d waits, because snapshot %d is in progress; send it again",
                    head.caller.trainer, head.sequence, hold_.cut);
}

Status Shard::CheckCutOf(const SnapshotFrontier& mark) const {
  const TrainerRegistry::Trainer& t = trainers_[mark.trainer];
  if (t.incarnation != mark.incarnation) {
    return Aborted("the snapshot failed, because trainer %d was restarted", mark.trainer);
  }
  const uint64_t sent = SentNumbers::At(mark.numbers.sent, options_.index);
  const uint64_t ended =
      mark.completed ? sent : SentNumbers::At(mark.numbers.ended, options_.index);
  if (t.taken.highest() > sent && options_.bug != ShardBug::kHoldsNothing) {
    return Aborted("the snapshot failed, because trainer %d pushed in the meantime", mark.trainer);
  }
  if (options_.bug == ShardBug::kCutsEarly) return OkStatus();
  for (uint64_t n = sent; n > ended; --n) {
    if (t.taken.Look(n) == SequenceWindow::Seen::kTaken) continue;
    return Unavailable(
        "push %d of trainer %d is missing: the server did not receive it or rejected it", n,
        mark.trainer);
  }
  return OkStatus();
}

Status Shard::CheckCut() const {
  if (moves_.map.version() != hold_.order->map_version || !frozen_.moves.empty() ||
      !moves_.offered.empty()) {
    return Aborted("the snapshot failed, because rows moved between servers");
  }
  for (const SnapshotFrontier& mark : hold_.order->marks) TD_RETURN_IF_ERROR(CheckCutOf(mark));
  return OkStatus();
}

void Shard::TakeCut(const std::string& job, SnapshotRequest order, Done<PendingSnapshot> done) {
  Ready ready;
  const auto begin = [&]() TD_NO_ANALYSIS -> Status {
    TD_RETURN_IF_ERROR(CheckCuttable(job));
    const bool held = hold_.cut == order.cut && hold_.taker == order.taker && !hold_.order;
    if (!held || clock_.Now() >= hold_.until) {
      return Aborted("the lease of snapshot %d has expired, so pushes no longer wait for it",
                     order.cut);
    }
    for (int r = 0; r < config_.trainers; ++r) {
      const auto i = static_cast<size_t>(r);
      if (std::ssize(order.marks) != trainers_.size() || order.marks[i].trainer != r) {
        return InvalidArgument(
            "snapshot %d: expected the push windows of all %d trainers, in their order", order.cut,
            config_.trainers);
      }
    }
    // An older incarnation, which other servers reject, must not push here: the others would lack
    // its pushes.
    for (const SnapshotFrontier& mark : order.marks) {
      if (mark.incarnation <= trainers_[mark.trainer].incarnation) continue;
      Adopt({job, mark.trainer, mark.incarnation});
    }
    hold_.until = clock_.Now() + order.lease;
    hold_.order = std::move(order);
    hold_.done = std::move(done);
    return OkStatus();
  };
  Status begun;
  {
    MutexLock lock(mu_);
    begun = begin();
    if (begun.ok()) TryCut(ready);
  }
  if (!begun.ok()) return done(begun);
  Run(std::move(ready));
}

void Shard::TryCut(Ready& ready) {
  if (!hold_.order || replaying_) return;
  const Status whole = CheckCut();
  if (whole.code() == StatusCode::kUnavailable) return;
  StatusOr<Cut> cut = whole.ok() ? BeginSnapshot(/*delta=*/false) : StatusOr<Cut>(whole);
  if (!cut.ok()) return EndHold(cut.status(), ready);
  const Duration held = clock_.Now() - hold_.since;
  ready.push_back([held, done = std::move(hold_.done),
                   copy = CopyOf(*std::move(cut))](const Status& written) mutable {
    const SnapshotFn now = std::exchange(copy, nullptr);
    written.ok() ? done(PendingSnapshot{now, held}) : done(written);
  });
  hold_.order.reset();
  EndHold(OkStatus(), ready);
}

}  // namespace tandem::pserver
