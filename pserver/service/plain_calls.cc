#include "pserver/service/plain_calls.h"

#include <utility>

#include "proto/pserver.pb.h"
#include "pserver/wire/move_convert.h"
#include "pserver/wire/proto_convert.h"

namespace tandem::pserver {
namespace {

constexpr uint32_t kProtocol = 1;

}  // namespace

Status ConfigureShard(const ConfigureRequest& request, Shard& shard, ConfigureReply* reply) {
  if (request.protocol() != kProtocol) {
    return FailedPrecondition(
        "the client speaks protocol %d, but this server speaks protocol %d [TD6022]; hint: run the "
        "same version of Tandem on both sides",
        request.protocol(), kProtocol);
  }
  if (shard.replayable() && !request.keeps_pushes()) {
    return FailedPrecondition(
        "the server has durability replayable, but the client of trainer %d does not retransmit "
        "pushes [TD4012]; hint: use another client, or --durability=logged",
        request.trainer_id());
  }
  TD_ASSIGN_OR_RETURN(const ShardConfig config, FromProto(request));
  Agreement settings;
  for (const SettingDef& s : request.setting()) settings.emplace_back(s.name(), s.value());
  TD_ASSIGN_OR_RETURN(const ConfigureResult result,
                      shard.Configure(CallerOf(request), config, settings));
  reply->set_protocol(kProtocol);
  reply->set_server_incarnation(result.server_incarnation);
  reply->set_initialised(result.initialised);
  reply->set_restored(result.restored);
  reply->set_version(result.version);
  ToProto(result.map, reply->mutable_map());
  reply->set_generation(result.generation);
  reply->set_replayable(result.replayable);
  reply->set_keep_bytes_max(result.keep_bytes_max);
  reply->set_counts_steps(true);
  reply->set_steps(result.steps);
  return OkStatus();
}

void FillStatus(const ShardInfo& info, StatusReply* reply) {
  reply->set_configured(info.configured);
  reply->set_initialised(info.initialised);
  if (info.configured) {
    reply->set_mode(info.config.mode == UpdatePolicy::kSync ? UPDATE_MODE_SYNC
                                                            : UPDATE_MODE_A_SYNC);
  }
  reply->set_version(info.version);
  for (const SliceSpec& s : info.config.slices) {
    SliceStatus* slice = reply->add_slice();
    slice->set_variable(s.variable);
    slice->set_offset(s.offset);
    slice->set_numel(s.numel);
  }
  for (const TrainerInfo& t : info.trainers) {
    TrainerStatus* trainer = reply->add_trainer();
    trainer->set_trainer_id(static_cast<uint32_t>(t.trainer));
    trainer->set_seen(t.seen);
    trainer->set_incarnation(t.incarnation);
    trainer->set_pushes(t.pushes);
    trainer->set_last_step(t.last_step);
    trainer->set_silent_seconds(t.silent_seconds);
    trainer->set_lost(t.lost);
    trainer->set_skipped(t.skipped);
    trainer->set_lost_pushes(t.lost_pushes);
    trainer->set_waited_seconds(t.waited_seconds);
    trainer->set_completed(t.completed);
    trainer->set_steps(t.steps);
  }
  for (const TableInfo& t : info.tables) {
    TableStatus* table = reply->add_table();
    table->set_variable(t.variable);
    table->set_rows(t.rows);
    table->set_bytes(t.bytes);
    table->set_waiting(t.waiting);
    table->set_dropped(t.dropped);
    table->set_removed(t.removed);
    table->set_extended(t.extended);
  }
  reply->set_buckets(static_cast<uint32_t>(info.buckets));
  reply->set_map_version(info.map_version);
  reply->set_last_cut(info.last_snapshot);
}

Status InitShard(const InitParamsRequest& request, Shard& shard, InitParamsReply* reply) {
  std::vector<SliceValues> params;
  for (const SliceTensor& slice : request.param()) {
    TD_ASSIGN_OR_RETURN(SliceValues values, FromProto(slice));
    params.push_back(std::move(values));
  }
  std::vector<SlotValues> slots;
  for (const SlotTensor& slot : request.slot()) {
    TD_ASSIGN_OR_RETURN(SlotValues values, FromProto(slot));
    slots.push_back(std::move(values));
  }
  std::vector<RowValues> rows;
  for (const TableRows& r : request.rows()) {
    TD_ASSIGN_OR_RETURN(RowValues values, FromProto(r));
    rows.push_back(std::move(values));
  }
  TD_ASSIGN_OR_RETURN(const bool initialised,
                      shard.InitParams(CallerOf(request), request.version(), params, slots, rows));
  reply->set_initialised(initialised);
  reply->set_version(request.version());
  return OkStatus();
}

}  // namespace tandem::pserver
