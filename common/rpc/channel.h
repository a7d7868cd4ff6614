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

// Largest message that a client or server accepts or sends.
inline constexpr int kMessageBytesMax = (1 << 30) + (1 << 20);

// Makes credentials for any number of channels. Changed files are loaded within seconds; existing
// connections stay open.
// A server must prove the dialled host name and, if `server_uri` is not empty, that identity (ToUri
// of identity.h). Errors: those of CheckTlsFiles.
StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const TlsFiles& tls, const std::string& server_uri = "");

// Makes a channel that is not connected yet. Keepalive is 10 s/10 s, also without calls. Proxies
// from the environment are ignored. Messages have up to kMessageBytesMax bytes. Channels to the
// same address share no connection.
// The back-off between connection attempts is 100 ms to 1 s. With gRPC's defaults a client needs up
// to 10 s after a server is back; with these values it needs 0.6 s (measured).
// One attempt to connect lasts up to 5 s. During a flood from the caller's own address, a server
// delays callers of that address by seconds.
std::shared_ptr<grpc::Channel> MakeChannel(
    const Endpoint& server, const std::shared_ptr<grpc::ChannelCredentials>& credentials);
StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const Endpoint& server, const TlsFiles& tls);

}  // namespace tandem::rpc
