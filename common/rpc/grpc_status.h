// Status <-> grpc::Status, and the deadline of a call. Includes gRPC: for .cc files only.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem::rpc {

// The code numbers are the same on both sides. Messages longer than 2 KiB are cut (they travel in
// HTTP/2 headers, which have a limit of 8 KiB).
grpc::Status ToGrpc(const Status& status);
Status FromGrpc(const grpc::Status& status);

// Makes `context` ready for a call that ends at `deadline` at the latest, and waits for a server
// that is not there yet. Every call goes through here. INVALID_ARGUMENT without a deadline
// (Time::max()), DEADLINE_EXCEEDED when it has passed: then the call must not be made.
[[nodiscard]] Status PrepareCall(Time deadline, grpc::ClientContext* context);

}  // namespace tandem::rpc
