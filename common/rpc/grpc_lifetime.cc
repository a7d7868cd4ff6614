#include "common/rpc/grpc_lifetime.h"

#include <grpc/grpc.h>

namespace tandem::rpc {

void KeepGrpcRunning() {
  [[maybe_unused]] static const bool initialised = [] {
    grpc_init();  // never followed by grpc_shutdown()
    return true;
  }();
}

}  // namespace tandem::rpc
