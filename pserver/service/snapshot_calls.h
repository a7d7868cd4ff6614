// Handlers of the calls of proto/pserver.proto for global snapshots. A handler turns a request
// message into a reply message, independently of the transport.
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
// Fills `reply` and calls `done` once, on any thread. `reply` must exist until `done` is called.
void TakeSnapshot(const TakeCutRequest& request, DurableShard& durable, TakeCutReply* reply,
                  std::function<void(const Status&)> done);

}  // namespace tandem::pserver
