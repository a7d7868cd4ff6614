// Calls of proto/pserver.proto from request to answer, whatever carries them; Push and Pull are in
// tensor_calls.h.
#pragma once

#include "pserver/shard/shard.h"

namespace tandem {

class ConfigureReply;
class ConfigureRequest;
class InitParamsReply;
class InitParamsRequest;
class StatusReply;

// Nobody may be told of the answers before Shard::WhenLogged.
Status ConfigureShard(const ConfigureRequest& request, Shard& shard, ConfigureReply* reply);
// All of it but what the shard does not know.
void FillStatus(const ShardInfo& info, StatusReply* reply);
Status InitShard(const InitParamsRequest& request, Shard& shard, InitParamsReply* reply);

}  // namespace tandem
