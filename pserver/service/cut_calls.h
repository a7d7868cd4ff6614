// The calls of proto/pserver.proto about cuts over all servers, from message to message, whatever
// carries them.
#pragma once

#include <functional>

#include "common/base/status.h"

namespace tandem {

class DurableShard;
class HoldPushesReply;
class HoldPushesRequest;
class TakeCutReply;
class TakeCutRequest;

Status HoldPushes(const HoldPushesRequest& request, DurableShard& durable, HoldPushesReply* reply);
// `reply` must live until `done` is called, once, on any thread.
void TakeCut(const TakeCutRequest& request, DurableShard& durable, TakeCutReply* reply,
             std::function<void(const Status&)> done);

}  // namespace tandem
