// Handlers of the calls of proto/pserver.proto without tensors. A handler turns a request message
// into a reply message, independently of the transport. Push and Pull are in tensor_calls.h.
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

// Configures the shard. The caller sends the reply only after Shard::WhenLogged has called back.
Status ConfigureShard(const ConfigureRequest& request, Shard& shard, ConfigureReply* reply);
// Fills the fields of `reply` that the shard knows.
void FillStatus(const ShardInfo& info, StatusReply* reply);
Status InitShard(const InitParamsRequest& request, Shard& shard, InitParamsReply* reply);

}  // namespace tandem::pserver
