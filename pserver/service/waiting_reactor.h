// A gRPC reactor for a call that may wait for other trainers. It reports when its caller
// disconnects.
#pragma once

#include <functional>

namespace grpc {
class ServerUnaryReactor;
}

namespace tandem::pserver {

// Returns a reactor that deletes itself when gRPC no longer needs it. The reactor calls `gone` when
// the call is cancelled or its connection breaks. It does so at most once, on a gRPC thread,
// possibly after the reply. `gone` must not block.
grpc::ServerUnaryReactor* NewWaitingReactor(std::function<void()> gone);

}  // namespace tandem::pserver
