// Calls of proto/pserver.proto from request to reply, with any transport. Push and Pull are in
// tensor_calls.h.
#pragma once

#include "pserver/shard/shard.h"

namespace tandem {
class ConfigureReply;
class ConfigureRequest;
class InitParamsReply;
class InitParamsRequest;
class StatusReply;
}  // namespace tandem

namespace tandem::pserver {

// Replies must not be sent before Shard::WhenLogged.
Status ConfigureShard(const ConfigureRequest& request, Shard& shard, ConfigureReply* reply);
// Fills all fields that the shard knows.
void FillStatus(const ShardInfo& info, StatusReply* reply);
Status InitShard(const InitParamsRequest& request, Shard& shard, InitParamsReply* reply);

}  // namespace tandem::pserver
