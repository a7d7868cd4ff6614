// Client channels with the settings that every Tandem client uses. The header has no gRPC in it
// beyond forward declarations.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/rpc/endpoint.h"
#include "common/rpc/tls_files.h"

namespace grpc {
class Channel;
class ChannelCredentials;
}  // namespace grpc

namespace tandem::rpc {

// Largest message that a client or server takes or sends.
inline constexpr int kMessageBytesMax = (1 << 30) + (1 << 20);

// Credentials for any number of channels. The files are read again when they change (within
// seconds); connections that are there stay. A server must prove the host name that was dialled
// and, where `server_uri` is not empty, that identity (ToUri of identity.h). Errors of
// CheckTlsFiles.
StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(
    const TlsFiles& tls, const std::string& server_uri = "");

// A channel that does not connect yet: keepalive 10 s/10 s also without calls, back-off 100 ms to 1
// s between attempts (measured: with gRPC's defaults a client needs up to 10 s after a server is
// back, with these 0.6 s), no proxy from the environment, messages up to kMessageBytesMax. Channels
// to the same address share no connection. One attempt to connect lasts up to 5 s: during a flood
// from the caller's own address a server lets callers of that address wait for seconds.
std::shared_ptr<grpc::Channel> MakeChannel(
    const Endpoint& server, const std::shared_ptr<grpc::ChannelCredentials>& credentials);
StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const Endpoint& server, const TlsFiles& tls);

}  // namespace tandem::rpc
