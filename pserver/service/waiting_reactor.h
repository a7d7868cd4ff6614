// The end of a call that may wait for others: says when its caller is gone.
#pragma once

#include <functional>

namespace grpc {
class ServerUnaryReactor;
}

namespace tandem {

// Lives until gRPC needs it no more. `gone` is called when the call was cancelled or its connection
// broke: at most once, on a gRPC thread, also after the call was answered. It must not block.
grpc::ServerUnaryReactor* NewWaitingReactor(std::function<void()> gone);

}  // namespace tandem
