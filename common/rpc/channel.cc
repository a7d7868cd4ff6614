#include "common/rpc/channel.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <fstream>
#include <iterator>

namespace tandem {
namespace {

StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(const TlsFiles& tls) {
  if (!tls.enabled()) return grpc::InsecureChannelCredentials();
  if (tls.cert.empty() != tls.key.empty()) {
    return InvalidArgument("TLS: certificate and key come together (tls_cert, tls_key)");
  }
  grpc::SslCredentialsOptions options;
  if (!tls.ca.empty()) {
    TD_ASSIGN_OR_RETURN(options.pem_root_certs, ReadPem(tls.ca));
  }
  if (!tls.cert.empty()) {
    TD_ASSIGN_OR_RETURN(options.pem_cert_chain, ReadPem(tls.cert));
    TD_ASSIGN_OR_RETURN(options.pem_private_key, ReadPem(tls.key));
  }
  return grpc::SslCredentials(options);
}

}  // namespace

StatusOr<std::string> ReadPem(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return NotFound("TLS file %s cannot be opened", path);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (text.find("-----BEGIN ") == std::string::npos) {
    return InvalidArgument("TLS file %s is not PEM (no \"-----BEGIN\" in it)", path);
  }
  return text;
}

StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const Endpoint& server, const TlsFiles& tls) {
  TD_ASSIGN_OR_RETURN(std::shared_ptr<grpc::ChannelCredentials> credentials, Credentials(tls));
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(kMessageBytesMax);
  args.SetMaxSendMessageSize(kMessageBytesMax);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  args.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
  args.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  args.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  args.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  args.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  args.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // our own retries carry sequence numbers
  return grpc::CreateCustomChannel(ToString(server), credentials, args);
}

}  // namespace tandem
