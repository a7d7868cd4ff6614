#include "common/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cerrno>
#include <mutex>

#include "common/base/check.h"
#include "common/base/fd.h"
#include "common/base/predecessor.h"

namespace tandem {
namespace {

// The files are watched, so that certificates can be renewed while the server runs.
StatusOr<std::shared_ptr<grpc::ServerCredentials>> Credentials(const TlsFiles& tls) {
  constexpr unsigned kRefreshSeconds = 1;
  if (!tls.enabled()) return grpc::InsecureServerCredentials();
  if (tls.cert.empty() || tls.key.empty()) {
    return InvalidArgument("TLS: a server needs certificate and key (tls_cert, tls_key)");
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

// gRPC does not say why it could not listen; trying one of its addresses ourselves does. "" when
// nothing is wrong.
std::string WhyNotListen(const Endpoint& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  if (const int error = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
      error != 0) {
    return gai_strerror(error);
  }
  std::string why = "there is no such address";
  for (const addrinfo* one = found; one != nullptr && !why.empty(); one = one->ai_next) {
    const Fd fd(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    if (fd.valid()) (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    // Without listening for a moment: a client may be waiting for the server to come.
    const bool bound = fd.valid() && bind(fd.get(), one->ai_addr, one->ai_addrlen) == 0;
    why = bound ? "" : ErrnoText(errno);
  }
  freeaddrinfo(found);
  return why;
}

void Configure(const ServerOptions& options, grpc::ServerBuilder* builder) {
  static std::once_flag reflection;  // the plug-in list is gRPC's own and may be filled once
  std::call_once(reflection, [] { grpc::reflection::InitProtoReflectionServerBuilderPlugin(); });
  grpc::EnableDefaultHealthCheckService(true);
  builder->SetMaxReceiveMessageSize(kMessageBytesMax);
  builder->SetMaxSendMessageSize(kMessageBytesMax);
  // Two servers on one port would both start and share the callers.
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
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

StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const ServerOptions& options,
                                                      const std::vector<grpc::Service*>& services) {
  if (!options.tls.enabled() && !IsLoopback(options.listen) && !options.insecure_allow_network) {
    return PermissionDenied(
        "listening on %s without TLS: anybody in the network could read and change parameters "
        "[TD6001]; "
        "give tls_dir (tandem certs issue makes one), or allow it with insecure_allow_network",
        ToString(options.listen));
  }
  TD_ASSIGN_OR_RETURN(std::shared_ptr<grpc::ServerCredentials> credentials,
                      Credentials(options.tls));
  const auto cannot = [&options](const std::string& why) {
    return Unavailable("cannot listen on %s: %s [TD4009]", ToString(options.listen), why);
  };
  // Before gRPC tries it, which would write to the log what nobody can read.
  std::string why;
  const auto taken = [&] {
    why = WhyNotListen(options.listen);
    return why == ErrnoText(EADDRINUSE);
  };
  AwaitPredecessor("port " + ToString(options.listen) + " is taken", taken, options.patience);
  if (!why.empty()) return cannot(why);
  grpc::ServerBuilder builder;
  Configure(options, &builder);
  int port = 0;
  builder.AddListeningPort(ToString(options.listen), credentials, &port);
  for (grpc::Service* service : services) builder.RegisterService(service);
  auto server = std::unique_ptr<RpcServer>(new RpcServer());
  server->server_ = builder.BuildAndStart();
  if (server->server_ == nullptr || port <= 0) {
    why = WhyNotListen(options.listen);
    return cannot(why.empty() ? "the address cannot be used" : why);
  }
  server->endpoint_ = {options.listen.host, port};
  server->SetServing(false);
  return server;
}

RpcServer::~RpcServer() { Stop(SteadyNow()); }

void RpcServer::SetServing(bool serving) {
  if (auto* health = server_->GetHealthCheckService()) health->SetServingStatus(serving);
}

void RpcServer::Stop(Time deadline) {
  if (server_ == nullptr) return;
  const Duration left = std::max(deadline - SteadyNow(), Duration::zero());
  server_->Shutdown(std::chrono::system_clock::now() +
                    std::chrono::duration_cast<std::chrono::system_clock::duration>(left));
  server_->Wait();
}

}  // namespace tandem
