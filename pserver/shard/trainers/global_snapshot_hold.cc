#include "pserver/shard/trainers/global_snapshot_hold.h"

#include <algorithm>
#include <utility>

#include "common/base/require.h"

namespace tandem::pserver {

StatusOr<std::vector<SnapshotFrontier>> GlobalSnapshotHold::Hold(uint64_t number, uint64_t taker,
                                                                 Duration lease,
                                                                 const TrainerRegistry& trainers,
                                                                 bool sync) {
  if (number <= last_) {
    return FailedPrecondition(
        "snapshot %d: the number must be higher than the number of the last snapshot, %d [TD4020]; "
        "hint: run tandem save --snapshot, which chooses the number",
        number, last_);
  }
  const bool same = hold_.number == number && hold_.taker == taker && !hold_.order;
  if (hold_.number != 0 && !same) {
    return Unavailable("snapshot %d is in progress; hint: try again later", hold_.number);
  }
  std::vector<SnapshotFrontier> frontiers;
  for (int r = 0; r < trainers.size(); ++r) {
    const TrainerRegistry::Trainer& t = trainers[r];
    if (!sync && SentNumbers::At(t.numbers.sent, server_) < t.taken.highest()) {
      return FailedPrecondition(
          "trainer %d does not number its messages (PushRequest.sent), which a snapshot needs "
          "[TD6022]; hint: use a client of this version",
          r);
    }
    frontiers.push_back({.trainer = r,
                         .incarnation = t.incarnation,
                         .completed = t.completed,
                         .numbers = t.numbers});
  }
  const Time now = clock_.Now();
  if (hold_.number == 0) {
    hold_ = {
        .number = number, .taker = taker, .since = now, .until = {}, .order = {}, .done = nullptr};
  }
  hold_.until = now + lease;
  return frontiers;
}

Status GlobalSnapshotHold::CheckOrder(const SnapshotRequest& order,
                                      const TrainerRegistry& trainers) const {
  const bool held =
      hold_.number == order.record.number && hold_.taker == order.taker && !hold_.order;
  if (!held || clock_.Now() >= hold_.until) {
    return Aborted("the lease of snapshot %d has expired, so this server accepts pushes again",
                   order.record.number);
  }
  for (int r = 0; r < trainers.size(); ++r) {
    const auto i = static_cast<size_t>(r);
    if (std::ssize(order.marks) != trainers.size() || order.marks[i].trainer != r) {
      return InvalidArgument(
          "snapshot %d: the request must list the push windows of all %d trainers in the order of "
          "their ranks",
          order.record.number, trainers.size());
    }
  }
  return OkStatus();
}

void GlobalSnapshotHold::Order(SnapshotRequest order, Done done) {
  TD_REQUIRE(hold_.number == order.record.number && !hold_.order);
  TD_REQUIRE(done != nullptr);
  hold_.until = clock_.Now() + order.lease;
  hold_.order = std::move(order);
  hold_.done = std::move(done);
}

Status GlobalSnapshotHold::Admits(const PushHead& head) const {
  if (!active()) return OkStatus();
  if (hold_.order && hold_.order->step) {
    if (head.step < *hold_.order->step) return OkStatus();
  } else if (hold_.order) {
    const SnapshotFrontier& frontier = hold_.order->marks[static_cast<size_t>(head.caller.trainer)];
    if (frontier.incarnation == head.caller.incarnation &&
        head.sequence <= SentNumbers::At(frontier.numbers.sent, server_)) {
      return OkStatus();
    }
  }
  return OutOfRange(
      "trainer %d: push %d cannot be applied yet, because snapshot %d is in progress; hint: send "
      "the push again later",
      head.caller.trainer, head.sequence, hold_.number);
}

Status GlobalSnapshotHold::Verdict(const TrainerRegistry& trainers, const BucketPlacement& buckets,
                                   uint64_t version) const {
  TD_REQUIRE(ordered());
  if (buckets.map_version != hold_.order->map_version || buckets.moving) {
    return Aborted("the snapshot failed, because rows moved between servers");
  }
  if (hold_.order->step) return VerdictAtStep(*hold_.order->step, version);
  for (const SnapshotFrontier& frontier : hold_.order->marks) {
    TD_RETURN_IF_ERROR(VerdictOf(frontier, trainers));
  }
  return OkStatus();
}

Status GlobalSnapshotHold::VerdictAtStep(uint64_t step, uint64_t version) {
  if (version == step) return OkStatus();
  if (version > step) {
    return Aborted("the snapshot of version %d failed, because this server has version %d", step,
                   version);
  }
  return Unavailable("this server has version %d, and pushes of step %d are missing", version,
                     version + 1);
}

Status GlobalSnapshotHold::VerdictOf(const SnapshotFrontier& frontier,
                                     const TrainerRegistry& trainers) const {
  const TrainerRegistry::Trainer& t = trainers[frontier.trainer];
  if (t.incarnation != frontier.incarnation) {
    return Aborted("the snapshot failed, because trainer %d was restarted", frontier.trainer);
  }
  const uint64_t sent = SentNumbers::At(frontier.numbers.sent, server_);
  const uint64_t ended =
      frontier.completed ? sent : SentNumbers::At(frontier.numbers.ended, server_);
  if (t.taken.highest() > sent) {
    return Aborted("the snapshot failed, because trainer %d pushed during the snapshot",
                   frontier.trainer);
  }
  for (uint64_t n = sent; n > ended; --n) {
    if (t.taken.Look(n) == SequenceWindow::Seen::kTaken) continue;
    return Unavailable(
        "push %d of trainer %d is missing: the server did not receive the push or rejected the "
        "push",
        n, frontier.trainer);
  }
  return OkStatus();
}

std::optional<GlobalSnapshotHold::Ended> GlobalSnapshotHold::End(const Status& why) {
  if (hold_.number == 0) return std::nullopt;
  const Time now = clock_.Now();
  held_.Observe(Seconds(std::min(now, hold_.until) - hold_.since));
  last_ = std::max(last_, hold_.number);
  Ended ended{.why = why, .held = now - hold_.since, .done = std::move(hold_.done)};
  hold_ = {};
  return ended;
}

std::optional<GlobalSnapshotHold::Ended> GlobalSnapshotHold::Expire(const TrainerRegistry& trainers,
                                                                    const BucketPlacement& buckets,
                                                                    uint64_t version) {
  const Time now = clock_.Now();
  if (hold_.number == 0 || now < hold_.until) return std::nullopt;
  const Status missing = ordered() ? Verdict(trainers, buckets, version) : OkStatus();
  return End(DeadlineExceeded("snapshot %d timed out after %.1f s: %s", hold_.number,
                              Seconds(now - hold_.since), std::string(missing.message())));
}

std::optional<GlobalSnapshotHold::Ended> GlobalSnapshotHold::Release(uint64_t number,
                                                                     uint64_t taker) {
  if (hold_.number == number && hold_.taker != taker) return std::nullopt;
  last_ = std::max(last_, number);
  if (hold_.number != number) return std::nullopt;
  return End(Aborted("snapshot %d failed, because its caller cancelled it", number));
}

}  // namespace tandem::pserver
