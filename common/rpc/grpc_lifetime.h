// Keeps the gRPC library initialised until the process ends.
#pragma once

namespace tandem::rpc {

// Initialises gRPC unless it is already initialised, and prevents its shutdown. The shutdown of
// gRPC 1.51 may wait 10 s for a thread that polls connections whose send buffers were full
// (https://github.com/grpc/grpc/issues/41050). A launcher would kill the process during this wait.
// Thread-safe. Call this function before the first channel or server is made.
void KeepGrpcRunning();

}  // namespace tandem::rpc
