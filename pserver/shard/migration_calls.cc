#include "pserver/shard/migration_calls.h"

namespace tandem::pserver {

StatusOr<BucketMigration> Shard::Migrations::Freeze(const std::string& job,
                                                    const FreezeRequest& request) {
  MutexLock lock(shard_.mu_);
  return shard_.migrations_.Freeze(job, request, shard_.hold_.active());
}

Status Shard::Migrations::Offer(const std::string& job, const BucketMigration& migration) {
  Turn turn(shard_);
  Status status = shard_.state_.broken;
  if (status.ok()) status = shard_.migrations_.CheckTarget(migration);
  const bool begins = shard_.state_.params == nullptr && !migration.config.job.empty();
  if (status.ok() && begins) status = BeginWith(migration);
  if (status.ok()) status = shard_.migrations_.Offer(job, migration);
  // Wakes waiting calls: the marks in the migration may report steps of trainers that this server
  // did not know.
  shard_.calls_.Wake(turn.ready());
  shard_.calls_.WakeBarriers(turn.ready());
  return status;
}

Status Shard::Migrations::BeginWith(const BucketMigration& migration) {
  ShardState& state = shard_.state_;
  TD_RETURN_IF_ERROR(CheckConfig(migration.config));
  TD_RETURN_IF_ERROR(shard_.factory_.Check(migration.config));
  TD_RETURN_IF_ERROR(shard_.SetUp(migration.config));
  state.params->progress().SetAll();
  state.version = migration.version;
  Status status = state.params->tables().SetScalars(migration.scalars);
  state.Settle();
  if (status.ok() && shard_.options_.keep_first) {
    const StatusOr<ShardSnapshot> snapshot =
        shard_.snapshotter_.CopyNow(/*delta=*/false, shard_.migrations_.moves());
    status = snapshot.ok() ? shard_.options_.keep_first(*snapshot) : snapshot.status();
  }
  // Drops the configuration, so that the server is as before the message.
  if (!status.ok()) state.params = nullptr;
  return status;
}

StatusOr<BucketMap> Shard::Migrations::Release(const std::string& job,
                                               const std::vector<BucketMove>& moves) {
  Turn turn(shard_);
  TD_ASSIGN_OR_RETURN(BucketMap map, shard_.migrations_.Release(job, moves));
  shard_.calls_.FailMovedPulls(turn.ready());
  return map;
}

Status Shard::Migrations::Refuse(const std::string& job, bool refuse) {
  MutexLock lock(shard_.mu_);
  return shard_.migrations_.Refuse(job, refuse);
}

StatusOr<MapAnswer> Shard::Migrations::Exchange(const CallerId& caller, bool observer,
                                                const BucketMap& known, uint64_t min_step) {
  Turn turn(shard_);
  ShardState& state = shard_.state_;
  TD_RETURN_IF_ERROR(state.broken);
  if (!observer) {
    TD_RETURN_IF_ERROR(shard_.AdmitCaller(caller));
    if (state.trainers.RaiseSteps(caller.trainer, min_step)) shard_.calls_.Wake(turn.ready());
  } else if (state.params != nullptr) {
    TD_RETURN_IF_ERROR(CheckJob(caller.job, state.config.job));
  }
  return shard_.migrations_.Learn(known);
}

StatusOr<MapAnswer> Shard::Migrations::Look(const std::string& job) {
  MutexLock lock(shard_.mu_);
  TD_RETURN_IF_ERROR(shard_.state_.broken);
  if (shard_.state_.params != nullptr) {
    TD_RETURN_IF_ERROR(CheckJob(job, shard_.state_.config.job));
  }
  return shard_.migrations_.Answer();
}

}  // namespace tandem::pserver
