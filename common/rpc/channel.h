// Client channels with the settings that every Tandem client uses. The header contains only forward
// declarations of gRPC.
#pragma once

#include <memory>
#include <string>

#include "common/base/endpoint.h"
#include "common/base/status.h"
#include "common/rpc/credentials/tls_files.h"

namespace grpc {
class Channel;
class ChannelCredentials;
}  // namespace grpc

namespace tandem::rpc {

// Maximum size of a message of clients and servers, in bytes.
inline constexpr int kMessageBytesMax = (1 << 30) + (1 << 20);

// Makes credentials for any number of channels. Without TLS files, the credentials are insecure.
// With TLS, changed files are loaded within seconds; existing connections stay open. The server
// must prove the host name of the channel. If `server_uri` is not empty, the server must also prove
// that identity (ToUri of identity.h). Errors: those of CheckTlsFiles. INVALID_ARGUMENT also: `ca`
// is not set.
StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const TlsFiles& tls, const std::string& server_uri = "");

// Makes a channel that is not connected yet. Keepalive pings are sent every 10 s, also without
// calls, and time out after 10 s. Proxies from the environment are ignored. A message has at most
// kMessageBytesMax bytes. Channels to the same address share no connection. The pause between
// connection attempts is 100 ms to 1 s. With this pause, a client needs 0.6 s to connect after a
// server restart; with gRPC's defaults, it needs up to 10 s (measured). One connection attempt
// lasts up to 5 s, because a server delays callers by seconds during a flood from their address.
std::shared_ptr<grpc::Channel> MakeChannel(
    const Endpoint& server, const std::shared_ptr<grpc::ChannelCredentials>& credentials);
StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const Endpoint& server, const TlsFiles& tls);

}  // namespace tandem::rpc
