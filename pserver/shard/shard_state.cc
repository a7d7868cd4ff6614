#include "pserver/shard/shard_state.h"

#include <utility>

#include "common/base/require.h"

namespace tandem::pserver {

ShardState::ShardState(const ShardOptions& shard_options, const Clock& shard_clock,
                       Metrics& shard_metrics)
    : options(shard_options),
      clock(shard_clock),
      metrics(shard_metrics),
      journal(shard_options.log, shard_options.replayable),
      trainers(shard_clock, shard_metrics) {}

Status ShardState::CheckInitialised() const {
  return initialised() ? OkStatus()
                       : FailedPrecondition(
                             "snapshot: the parameters of this server are not initialised yet");
}

Status ShardState::CheckRank(const CallerId& caller) const {
  TD_RETURN_IF_ERROR(broken);
  if (params == nullptr) {
    return FailedPrecondition(
        "no trainer has configured this server yet; %s [TD4005]; hint: start servers with "
        "--durability=logged or replayable, so that a restarted server keeps its state",
        options.found.empty() ? "it may have been restarted without a checkpoint" : options.found);
  }
  TD_RETURN_IF_ERROR(CheckJob(caller.job, config.job));
  if (caller.trainer < 0 || caller.trainer >= config.trainers) {
    return InvalidArgument("trainer %d is out of range, expected 0 to %d", caller.trainer,
                           config.trainers - 1);
  }
  return OkStatus();
}

Status ShardState::CheckIncarnation(const CallerId& caller) const {
  const uint64_t newest = trainers[caller.trainer].incarnation;
  if (caller.incarnation >= newest) return OkStatus();
  return FailedPrecondition(
      "trainer %d was restarted as incarnation %d, so calls of incarnation %d are rejected "
      "[TD4008]",
      caller.trainer, newest, caller.incarnation);
}

std::vector<int> ShardState::MissingAtStep() const {
  std::vector<int> missing;
  for (int r = 0; r < trainers.size(); ++r) {
    if (!trainers[r].completed && !params->step().GaveAll(r)) missing.push_back(r);
  }
  return missing;
}

void ShardState::SetUp(const ShardConfig& new_config, std::unique_ptr<ShardParams> new_params) {
  SetParams(std::move(new_params));
  config = new_config;
  event_time_ms = 0;
  trainers.Begin(config.trainers);
}

void ShardState::SetParams(std::unique_ptr<ShardParams> new_params) {
  TD_REQUIRE(new_params != nullptr);
  params = std::move(new_params);
  table_metrics.emplace(metrics, params->tables());
}

void ShardState::Settle() {
  journal.Settle();
  trainers.Settle();
}

uint64_t ValueBytes(const PushHead& head) {
  uint64_t bytes = 0;
  for (const PushHead::Slice& s : head.slices) bytes += s.desc.bytes();
  return bytes;
}

}  // namespace tandem::pserver
