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
  // The server uses TLS if `cert` and `key` are set. If `ca` is set too, callers must present a
  // certificate that `ca` signed.
  TlsFiles tls;
  // true: the server may listen on network addresses without TLS. false: without TLS, the server
  // listens on loopback addresses only.
  bool insecure_allow_network = false;
  // Maximum time for which Start() waits for a port that is in use (common/base/predecessor.h).
  Duration patience = {};
  // Sockets that already listen, TCP or Unix-domain (acceptor.h). If there are any, `listen` is not
  // bound.
  std::vector<std::shared_ptr<Fd>> listeners;
  // Limits the connections. null: the server creates an Admissions that trusts every caller.
  std::shared_ptr<Admissions> admissions;
  // Maximum size of a message in bytes. gRPC refuses a larger one before it is parsed.
  int message_bytes_max = kMessageBytesMax;
  // Maximum memory of received messages whose calls have not ended, in bytes. gRPC enforces this
  // limit (grpc::ResourceQuota).
  size_t memory_bytes_max = size_t{4} << 30;
};

// A gRPC server and its acceptor. Thread-safe.
class RpcServer {
 public:
  // Starts to listen immediately. The health service reports "not serving" until SetServing(true).
  // The server listens on all addresses of a host name (listen.h). `services` must outlive the
  // server.
  // UNAVAILABLE (names address and reason): the port is in use. PERMISSION_DENIED: `listen` is a
  // network address, without TLS or insecure_allow_network.
  static StatusOr<std::unique_ptr<RpcServer>> Start(const ServerOptions& options,
                                                    const std::vector<grpc::Service*>& services);
  ~RpcServer();  // stops the server as Stop(now) does

  // Address of the server, with the port on which it listens.
  const Endpoint& endpoint() const { return endpoint_; }
  // Sets the status of the whole server that grpc.health.v1.Health reports (service name "").
  void SetServing(bool serving);
  // Accepts no further calls, waits for running calls until `deadline`, then cancels them.
  void Stop(Time deadline);

 private:
  RpcServer();

  Endpoint endpoint_;
  std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> entrance_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace tandem::rpc
