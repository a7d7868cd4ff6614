#include "common/rpc/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <grpcpp/support/channel_arguments.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/rpc/grpc_lifetime.h"

namespace tandem::rpc {
namespace {

using grpc::experimental::TlsCustomVerificationCheckRequest;

constexpr unsigned kRefreshSeconds = 1;

// Verifies the server's host name as gRPC does, then the server's identity.
class ServerVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit ServerVerifier(std::string uri) : uri_(std::move(uri)) {}

  bool Verify(TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* result) override {
    CHECK(host_name_.Verify(request, nullptr, result)) << "verified at once";
    if (!result->ok() || uri_.empty()) return true;
    const auto uris = request->uri_names();
    if (uris.size() == 1 && uris[0] == grpc::string_ref(uri_)) return true;
    *result = grpc::Status(
        grpc::StatusCode::UNAUTHENTICATED,
        "the server is not " + uri_ +
            (uris.empty() ? "" : " but " + std::string(uris[0].data(), uris[0].size())));
    return true;
  }
  void Cancel(TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::string uri_;
  grpc::experimental::HostNameCertificateVerifier host_name_;
};

// Returns the target for gRPC of a server with several addresses. By default gRPC uses the first
// address that answers (the policy pick_first), so all calls of a session reach one process.
std::string UseAllAddresses(const Endpoint& server, grpc::ChannelArguments& args) {
  TD_REQUIRE(!server.others.empty());
  // A lost host does not answer an attempt. The next address follows after this time.
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 2'000);
  // Calls must leave an address whose host is lost, which gives no reset, while its successor
  // answers at another address.
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 1'000);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 4'000);
  Endpoint first = server;
  first.others.clear();
  args.SetString(GRPC_ARG_DEFAULT_AUTHORITY, ToString(first));
  std::string target = "ipv4:" + ToString(first);
  for (const Endpoint& other : server.others) target += "," + ToString(other);
  return target;
}

}  // namespace

StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(const TlsFiles& tls,
                                                                    const std::string& server_uri) {
  if (!tls.enabled()) return grpc::InsecureChannelCredentials();
  TD_RETURN_IF_ERROR(CheckTlsFiles(tls).status());
  if (tls.ca.empty()) {
    return InvalidArgument("TLS needs tls_ca to verify servers, but tls_ca is not set [TD6015]");
  }
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          tls.key, tls.cert, tls.ca, kRefreshSeconds));
  options.watch_root_certs();
  if (!tls.cert.empty()) options.watch_identity_key_cert_pairs();
  options.set_certificate_verifier(
      grpc::experimental::ExternalCertificateVerifier::Create<ServerVerifier>(server_uri));
  // gRPC does not check the host name per call, because the handshake has verified it.
  options.set_check_call_host(false);
  return grpc::experimental::TlsCredentials(options);
}

std::shared_ptr<grpc::Channel> MakeChannel(
    const Endpoint& server, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  KeepGrpcRunning();
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(kMessageBytesMax);
  args.SetMaxSendMessageSize(kMessageBytesMax);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // This option limits the duration of one connection attempt, in ms.
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 5'000);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  // A server may return at another address under the same name. gRPC asks the name service at most
  // every 30 s by default.
  args.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 500);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // gRPC must not retry calls, because Tandem retries them itself, with sequence numbers.
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  if (!server.others.empty()) {
    const std::string target = UseAllAddresses(server, args);
    return grpc::CreateCustomChannel(target, credentials, args);
  }
  Endpoint dialled = server;
  dialled.host = NumericLocalhost(server.host);
  if (dialled.host != server.host) {
    args.SetString(GRPC_ARG_DEFAULT_AUTHORITY, ToString(server));
  }
  return grpc::CreateCustomChannel(ToString(dialled), credentials, args);
}

StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const Endpoint& server, const TlsFiles& tls) {
  TD_ASSIGN_OR_RETURN(const auto credentials, MakeCredentials(tls));
  return MakeChannel(server, credentials);
}

}  // namespace tandem::rpc
