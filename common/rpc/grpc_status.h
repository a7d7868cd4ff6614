// Converts between Status and grpc::Status, and sets the deadline of a call. Includes gRPC, so
// include it in .cc files only.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem::rpc {

// Convert between Status and grpc::Status, which have the same code numbers. Messages longer than 2
// KiB are truncated, because gRPC sends them in HTTP/2 headers, which are limited to 8 KiB.
grpc::Status ToGrpc(const Status& status);
Status FromGrpc(const grpc::Status& status);

// Prepares `context` for a call that ends at `deadline` at the latest. The call waits if the server
// is not reachable yet. Every call of Tandem must be prepared with this function. INVALID_ARGUMENT:
// there is no deadline (Time::max()). DEADLINE_EXCEEDED: the deadline has passed. After an error
// the call must not be made.
[[nodiscard]] Status PrepareCall(Time deadline, grpc::ClientContext* context);

}  // namespace tandem::rpc
