// The reactor of a call that may wait for others. It reports when its caller disconnects.
#pragma once

#include <functional>

namespace grpc {
class ServerUnaryReactor;
}

namespace tandem::pserver {

// Deletes itself when gRPC no longer needs it. Calls `gone` when the call is cancelled or its
// connection breaks: at most once, on a gRPC thread, possibly after the reply. `gone` must not
// block.
grpc::ServerUnaryReactor* NewWaitingReactor(std::function<void()> gone);

}  // namespace tandem::pserver
