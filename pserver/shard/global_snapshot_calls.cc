#include "pserver/shard/global_snapshot_calls.h"

#include <utility>

namespace tandem::pserver {

Status Shard::GlobalSnapshots::CheckPossible(const std::string& job) {
  ShardState& state = shard_.state_;
  TD_RETURN_IF_ERROR(state.broken);
  TD_RETURN_IF_ERROR(shard_.replay_.CheckComplete());
  TD_RETURN_IF_ERROR(state.CheckInitialised());
  TD_RETURN_IF_ERROR(CheckJob(job, state.config.job));
  if (shard_.migrations_.moving()) {
    return Unavailable(
        "snapshot: servers are transferring rows; hint: try again after the migration");
  }
  return OkStatus();
}

StatusOr<PausedState> Shard::GlobalSnapshots::Hold(const std::string& job, uint64_t number,
                                                   Duration lease, uint64_t taker) {
  Turn turn(shard_);
  const ShardState& state = shard_.state_;
  const TrainerRegistry& trainers = state.trainers;
  shard_.migrations_.Thaw();
  shard_.OnHoldEnded(shard_.hold_.Expire(trainers, shard_.migrations_.placement(), state.version),
                     turn.ready());
  TD_RETURN_IF_ERROR(CheckPossible(job));
  TD_ASSIGN_OR_RETURN(std::vector<SnapshotFrontier> accepted,
                      shard_.hold_.Hold(number, taker, lease, trainers, state.sync()));
  return PausedState{.marks = std::move(accepted),
                     .map = shard_.migrations_.moves().map,
                     .step = state.sync() ? std::optional<uint64_t>(state.version) : std::nullopt};
}

void Shard::GlobalSnapshots::Release(const std::string& job, uint64_t number, uint64_t taker) {
  Turn turn(shard_);
  if (job != shard_.state_.config.job) return;
  shard_.OnHoldEnded(shard_.hold_.Release(number, taker), turn.ready());
}

Status Shard::GlobalSnapshots::Order(const std::string& job, SnapshotRequest& order,
                                     Done<PendingSnapshot>& done) {
  const TrainerRegistry& trainers = shard_.state_.trainers;
  TD_RETURN_IF_ERROR(CheckPossible(job));
  TD_RETURN_IF_ERROR(shard_.hold_.CheckOrder(order, trainers));
  if (shard_.state_.sync() != order.step.has_value()) {
    return InvalidArgument(
        "snapshot %d: the request must have a step in sync mode, and none in other modes",
        order.record.number);
  }
  // Adopts the newer incarnations that other servers know. Without this, an older incarnation,
  // whose pushes the other servers reject, could still push to this server.
  for (const SnapshotFrontier& frontier : order.marks) {
    if (frontier.incarnation <= trainers[frontier.trainer].incarnation) continue;
    shard_.Adopt({.job = job, .trainer = frontier.trainer, .incarnation = frontier.incarnation});
  }
  shard_.hold_.Order(std::move(order), std::move(done));
  return OkStatus();
}

void Shard::GlobalSnapshots::Take(const std::string& job, SnapshotRequest order,
                                  Done<PendingSnapshot> done) {
  Status ordered;
  {
    Turn turn(shard_);
    ordered = Order(job, order, done);
    if (ordered.ok()) shard_.TryGlobalSnapshot(turn.ready());
  }
  if (!ordered.ok()) done(ordered);
}

void Shard::GlobalSnapshots::OnTaken(uint64_t number) {
  MutexLock lock(shard_.mu_);
  shard_.hold_.OnTaken(number);
}

}  // namespace tandem::pserver
