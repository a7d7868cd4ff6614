// Client channels with the settings that every Tandem client uses. The header has no gRPC in it
// beyond a forward declaration.
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/rpc/endpoint.h"

namespace grpc {
class Channel;
}

namespace tandem {

// PEM files. All empty: no TLS. `ca` alone: TLS, the server proves who it is. All three: both do.
struct TlsFiles {
  std::string cert, key, ca;
  bool enabled() const { return !cert.empty() || !key.empty() || !ca.empty(); }
};

// The file's bytes; NOT_FOUND, or INVALID_ARGUMENT when it is not PEM.
StatusOr<std::string> ReadPem(const std::string& path);

// Largest message that a client or server takes or sends.
inline constexpr int kMessageBytesMax = (1 << 30) + (1 << 20);

// A channel that does not connect yet: keepalive 10 s/10 s also without calls, back-off 100 ms to 1
// s between attempts (measured: with gRPC's defaults a client needs up to 10 s after a server is
// back, with these 0.6 s), no proxy from the environment, messages up to kMessageBytesMax. Channels
// to the same address share no connection.
StatusOr<std::shared_ptr<grpc::Channel>> MakeChannel(const Endpoint& server, const TlsFiles& tls);

}  // namespace tandem
