// A gRPC reactor for a call that may wait for other trainers. The reactor reports a disconnected
// caller.
#pragma once

#include <functional>

namespace grpc {
class ServerUnaryReactor;
}

namespace tandem::pserver {

// Returns a reactor that deletes itself when gRPC no longer needs it. The reactor calls `gone` when
// the call is cancelled or its connection breaks: at most once, on a gRPC thread, possibly after
// the reply. `gone` must not block.
grpc::ServerUnaryReactor* NewWaitingReactor(std::function<void()> gone);

}  // namespace tandem::pserver
