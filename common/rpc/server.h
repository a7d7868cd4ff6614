// A gRPC server with the settings that every Tandem daemon uses, plus the health and reflection
// services. The header has no gRPC in it beyond forward declarations.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/rpc/endpoint.h"

namespace grpc {
class Server;
class Service;
namespace experimental {
class ExternalConnectionAcceptor;
}
}  // namespace grpc

namespace tandem::rpc {

class Acceptor;
class Admissions;

struct ServerOptions {
  Endpoint listen{"127.0.0.1", 0};
  // cert and key together turn TLS on; with ca, callers must show a certificate signed by it.
  TlsFiles tls;
  // Without TLS only loopback addresses are listened on, unless this is set.
  bool insecure_allow_network = false;
  // So long a taken port is waited for (common/base/predecessor.h).
  Duration patience = {};
  // Sockets that listen already, TCP or Unix-domain (acceptor.h); then `listen` is not bound.
  std::vector<std::shared_ptr<Fd>> listeners;
  // Counts the connections; null: the server makes one whose callers need not prove anything.
  std::shared_ptr<Admissions> admissions;
  size_t memory_bytes_max = size_t{4} << 30;  // of messages in flight; more are refused
};

// Thread-safe.
class RpcServer {
 public:
  // Starts to listen at once, not serving by its health service until SetServing(true). All
  // addresses of a host name are listened on (listen.h).
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
  RpcServer();

  Endpoint endpoint_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> entrance_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace tandem::rpc
