// Answers reads of Redis clients (RESP) from the shard of a server. This header includes neither
// Boost nor gRPC.
#pragma once

#include <memory>

#include "common/base/endpoint.h"
#include "common/base/metrics.h"
#include "common/base/status.h"
#include "pserver/resp/resp_session.h"

namespace tandem::pserver {

struct RespListenOptions {
  Endpoint listen;
  bool tls = false;         // the server has TLS for its other calls
  bool has_secret = false;  // clients need AUTH
  bool insecure_allow_network = false;
  // Maximum time for which Start waits for a port that is in use (common/base/predecessor.h).
  Duration patience = {};
};

// Checks whether Redis clients may be answered at the address. Connections of Redis clients have no
// TLS. PERMISSION_DENIED: a network address without insecure_allow_network, or of a server with
// TLS; or a server with TLS has no secret, so its Redis clients would need no proof.
Status CheckRespListen(const RespListenOptions& options);

// A running server for Redis clients, with its own threads. Thread-safe.
class RespServer {
 public:
  // Listens at `options.listen`. UNAVAILABLE: the address cannot be used. The errors of
  // CheckRespListen. `metrics` and all pointers in `target` must outlive the server.
  static StatusOr<std::unique_ptr<RespServer>> Start(const RespListenOptions& options,
                                                     RespTarget target, Metrics& metrics);
  ~RespServer();  // closes all connections immediately

  const Endpoint& endpoint() const;  // address of the server, with the actual port

 private:
  RespServer();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::pserver
