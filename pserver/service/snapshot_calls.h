// Handlers of the calls of proto/pserver.proto for global snapshots. A handler turns a request
// message into a reply message, and is independent of the transport.
#pragma once

#include <functional>

#include "common/base/status.h"

namespace tandem {
class HoldPushesReply;
class HoldPushesRequest;
class TakeCutReply;
class TakeCutRequest;
}  // namespace tandem

namespace tandem::pserver {

class DurableShard;

Status HoldPushes(const HoldPushesRequest& request, DurableShard& durable, HoldPushesReply* reply);
// Calls `done` once, on any thread. `reply` must exist until `done` is called.
void TakeSnapshot(const TakeCutRequest& request, DurableShard& durable, TakeCutReply* reply,
                  std::function<void(const Status&)> done);

}  // namespace tandem::pserver
