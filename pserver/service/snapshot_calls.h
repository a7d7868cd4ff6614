// The calls of proto/pserver.proto for global snapshots: from a request message to a reply message,
// with any transport.
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
// Calls `done` once, on any thread. `reply` must exist until then.
void TakeSnapshot(const TakeCutRequest& request, DurableShard& durable, TakeCutReply* reply,
                  std::function<void(const Status&)> done);

}  // namespace tandem::pserver
