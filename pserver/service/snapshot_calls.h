// The calls of proto/pserver.proto for global snapshots, from request to reply message, with any
// transport.
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
// `reply` must live until `done` runs: once, on any thread.
void TakeSnapshot(const TakeCutRequest& request, DurableShard& durable, TakeCutReply* reply,
                  std::function<void(const Status&)> done);

}  // namespace tandem::pserver
