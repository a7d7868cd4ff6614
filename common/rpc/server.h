// A gRPC server with the settings that every Tandem daemon uses, plus the health and reflection
// services. The header has no gRPC in it beyond forward declarations.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/rpc/endpoint.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace tandem {

struct ServerOptions {
  Endpoint listen{"127.0.0.1", 0};
  // cert and key together turn TLS on; with ca, callers must show a certificate signed by it.
  TlsFiles tls;
  // Without TLS only loopback addresses are listened on, unless this is set.
  bool insecure_allow_network = false;
  // So long a taken port is waited for (common/base/predecessor.h).
  Duration patience = {};
  size_t memory_bytes_max = size_t{4} << 30;  // of messages in flight; more are refused
};

// Thread-safe.
class RpcServer {
 public:
  // Starts to listen at once, not serving by its health service until SetServing(true).
  // UNAVAILABLE naming address and reason when the port is taken; PERMISSION_DENIED for a network
  // address without TLS. `services` must outlive the server.
  static StatusOr<std::unique_ptr<RpcServer>> Start(const ServerOptions& options,
                                                    const std::vector<grpc::Service*>& services);
  ~RpcServer();  // Stop(now)

  const Endpoint& endpoint() const { return endpoint_; }  // with the port that was chosen
  // What grpc.health.v1.Health says of "" .
  void SetServing(bool serving);
  // Takes no more calls, lets those in progress end until `deadline`, then cancels them.
  void Stop(Time deadline);

 private:
  RpcServer() = default;

  Endpoint endpoint_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tandem
