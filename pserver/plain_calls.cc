#include "pserver/plain_calls.h"

#include <utility>

#include "proto/pserver.pb.h"
#include "pserver/move_convert.h"
#include "pserver/proto_convert.h"

namespace tandem {
namespace {

constexpr uint32_t kProtocol = 1;

}  // namespace

Status ConfigureShard(const ConfigureRequest& request, Shard& shard, ConfigureReply* reply) {
  if (request.protocol() != kProtocol) {
    return FailedPrecondition("the client speaks protocol %d, this server %d", request.protocol(),
                              kProtocol);
  }
  if (shard.replayable() && !request.keeps_pushes()) {
    return FailedPrecondition(
        "this server has durability replayable, and trainer %d keeps no pushes; hint: a client "
        "that "
        "does, or --durability=logged",
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
  return OkStatus();
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

}  // namespace tandem
