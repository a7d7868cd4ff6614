// A gRPC server with the settings that every Tandem daemon uses, plus the health and reflection
// services. The header contains only forward declarations of gRPC.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/endpoint.h"
#include "common/base/status.h"
#include "common/os/fd.h"
#include "common/rpc/channel.h"

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
  // `cert` and `key` together enable TLS. With `ca`, callers must present a certificate that it
  // signed.
  TlsFiles tls;
  // Without TLS the server listens on loopback addresses only, unless this is set.
  bool insecure_allow_network = false;
  // How long Start() waits for a port that is in use (common/base/predecessor.h).
  Duration patience = {};
  // Sockets that already listen, TCP or Unix-domain (acceptor.h). If given, `listen` is not bound.
  std::vector<std::shared_ptr<Fd>> listeners;
  // Limits the connections. null: the server creates one that does not require callers to prove an
  // identity.
  std::shared_ptr<Admissions> admissions;
  // Memory of messages in flight; further messages are refused.
  size_t memory_bytes_max = size_t{4} << 30;
};

// Thread-safe.
class RpcServer {
 public:
  // Starts to listen immediately. The health service reports "not serving" until SetServing(true).
  // The server listens on all addresses of a host name (listen.h). `services` must outlive the
  // server.
  // UNAVAILABLE (names address and reason): the port is in use. PERMISSION_DENIED: a network
  // address without TLS.
  static StatusOr<std::unique_ptr<RpcServer>> Start(const ServerOptions& options,
                                                    const std::vector<grpc::Service*>& services);
  ~RpcServer();  // Stop(now)

  const Endpoint& endpoint() const { return endpoint_; }  // with the port that was chosen
  // Sets the status that grpc.health.v1.Health reports for "".
  void SetServing(bool serving);
  // Accepts no further calls, lets running calls end until `deadline`, then cancels the others.
  void Stop(Time deadline);

 private:
  RpcServer();

  Endpoint endpoint_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> entrance_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace tandem::rpc
