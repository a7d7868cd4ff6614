#include "common/rpc/server.h"

#include <fcntl.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <cerrno>
#include <mutex>

#include "common/base/check.h"
#include "common/base/predecessor.h"
#include "common/os/fd.h"
#include "common/os/host_limits.h"
#include "common/rpc/acceptor.h"
#include "common/rpc/admissions.h"
#include "common/rpc/grpc_lifetime.h"
#include "common/rpc/listen.h"
#include "common/rpc/tls_watch.h"

namespace tandem::rpc {
namespace {

// Makes TLS credentials that read changed files, so that a running server uses new certificates.
StatusOr<std::shared_ptr<grpc::ServerCredentials>> Credentials(const TlsFiles& tls) {
  constexpr unsigned kRefreshSeconds = 1;
  if (!tls.enabled()) return grpc::InsecureServerCredentials();
  if (tls.cert.empty() || tls.key.empty()) {
    return InvalidArgument(
        "TLS: a server needs a certificate and a key (tls_cert, tls_key) [TD6015]");
  }
  TD_RETURN_IF_ERROR(CheckTlsFiles(tls).status());
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          tls.key, tls.cert, tls.ca, kRefreshSeconds));
  options.watch_identity_key_cert_pairs();
  if (!tls.ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

// Checks that a server without TLS may listen on `at`, the address of a bound socket. The address
// ServerOptions::listen gets the same check.
Status CheckReach(const Endpoint& at, const ServerOptions& options) {
  if (options.tls.enabled() || IsLoopback(at) || options.insecure_allow_network) return OkStatus();
  return PermissionDenied(
      "cannot listen on %s without TLS, because it is a network address [TD6001]; hint: set "
      "tls_dir (tandem certs issue), or insecure_allow_network in a trusted network",
      ToString(at));
}

// Copies the listening sockets of `options`.
StatusOr<Listening> TakeListeners(const ServerOptions& options) {
  Listening listening;
  listening.port = options.listen.port;
  for (const std::shared_ptr<Fd>& socket : options.listeners) {
    TD_ASSIGN_OR_RETURN(const Endpoint at, BoundAddress(socket->get()));
    if (!at.host.empty()) {
      TD_RETURN_IF_ERROR(CheckReach(at, options));
      listening.port = at.port;
    }
    Fd copy(fcntl(socket->get(), F_DUPFD_CLOEXEC, 0));
    if (!copy.valid() || fcntl(copy.get(), F_SETFL, O_NONBLOCK) != 0) {
      return SystemError(absl::StrFormat("cannot copy descriptor %d", socket->get()), errno);
    }
    listening.sockets.push_back(std::move(copy));
  }
  return listening;
}

StatusOr<Listening> Listen(const ServerOptions& options) {
  if (!options.listeners.empty()) return TakeListeners(options);
  TD_RETURN_IF_ERROR(CheckReach(options.listen, options));
  if (options.listen.is_unix() && options.tls.enabled()) {
    return InvalidArgument(
        "%s is a Unix-domain socket, which does not support TLS [TD1005]; hint: use "
        "--listen=127.0.0.1:PORT, or no TLS",
        ToString(options.listen));
  }
  StatusOr<Listening> listening = Unavailable("the server has not tried to listen yet");
  const auto taken = [&] {
    listening = ListenOn(options.listen);
    return absl::IsAlreadyExists(listening.status());
  };
  WaitForPreviousInstance("port " + ToString(options.listen) + " is in use", taken,
                          options.patience);
  if (listening.ok()) return listening;
  return Unavailable(
      "cannot listen on %s: %s [TD4009]; hint: choose another port, or end the program that uses "
      "it",
      ToString(options.listen), std::string(listening.status().message()));
}

void Configure(const ServerOptions& options, grpc::ServerBuilder* builder) {
  static std::once_flag reflection;  // once per process: gRPC's list of plug-ins is global
  LinkTlsWatch();
  std::call_once(reflection, [] { grpc::reflection::InitProtoReflectionServerBuilderPlugin(); });
  grpc::EnableDefaultHealthCheckService(true);
  builder->SetMaxReceiveMessageSize(options.message_bytes_max);
  builder->SetMaxSendMessageSize(kMessageBytesMax);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1'000);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 1024);
  grpc::ResourceQuota quota("tandem");
  quota.Resize(options.memory_bytes_max);
  builder->SetResourceQuota(quota);
}

}  // namespace

RpcServer::RpcServer() = default;

StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const ServerOptions& options,
                                                      const std::vector<grpc::Service*>& services) {
  using grpc::ServerBuilder;
  using grpc::experimental::ExternalConnectionAcceptor;
  KeepGrpcRunning();
  TD_ASSIGN_OR_RETURN(std::shared_ptr<grpc::ServerCredentials> credentials,
                      Credentials(options.tls));
  TD_ASSIGN_OR_RETURN(Listening listening, Listen(options));
  ServerBuilder builder;
  Configure(options, &builder);
  auto server = std::unique_ptr<RpcServer>(new RpcServer());
  server->endpoint_ = options.listen;
  server->endpoint_.port = listening.port;
  server->entrance_ = builder.experimental().AddExternalConnectionAcceptor(
      ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, credentials);
  for (grpc::Service* service : services) builder.RegisterService(service);
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr) return Internal("cannot start the gRPC server");
  server->SetServing(false);
  auto admissions = options.admissions;
  if (admissions == nullptr) admissions = std::make_shared<Admissions>(LimitsForThisProcess());
  AcceptorOptions accepting;
  accepting.tls = options.tls.enabled();
  accepting.hand_over = [entrance = server->entrance_.get()](int listener, Fd connection) {
    ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = listener;
    parameters.fd = connection.Release();
    entrance->HandleNewConnection(&parameters);
  };
  TD_ASSIGN_OR_RETURN(server->acceptor_,
                      Acceptor::Start(std::move(listening.sockets), admissions, accepting));
  return server;
}

RpcServer::~RpcServer() { Stop(SteadyNow()); }

void RpcServer::SetServing(bool serving) {
  if (auto* health = server_->GetHealthCheckService()) health->SetServingStatus(serving);
}

void RpcServer::Stop(Time deadline) {
  if (server_ == nullptr) return;
  acceptor_.reset();
  const Duration left = std::max(deadline - SteadyNow(), Duration::zero());
  server_->Shutdown(std::chrono::system_clock::now() +
                    std::chrono::duration_cast<std::chrono::system_clock::duration>(left));
  server_->Wait();
}

}  // namespace tandem::rpc
