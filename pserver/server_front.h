// The network side of a server: accepts calls and makes them on a shard. This header does not
// include gRPC.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "common/base/clock.h"
#include "common/base/endpoint.h"
#include "common/base/metrics.h"
#include "common/base/status.h"
#include "pserver/pserver.h"
#include "pserver/replication/log_follower.h"
#include "pserver/resp/resp_server.h"
#include "pserver/server_parts.h"

namespace tandem::pserver {

// Returns how Redis clients are answered. REQUIRES: options.resp_listen.
RespListenOptions RespListenOf(const PserverOptions& options);

// The state of a replica, for its front.
struct ReplicaView {
  std::function<LogFollower::Progress()> progress;  // null: the server is no replica
  const StateHistory* history = nullptr;            // must outlive the front
};

// Thread-safe, except for Start and the destructor.
class ServerFront {
 public:
  // Serves the shard of `parts`, which must outlive the front. The server of a replica answers only
  // calls that read.
  static StatusOr<std::unique_ptr<ServerFront>> Start(PserverOptions options, ServerParts& parts,
                                                      Metrics& metrics,
                                                      const ReplicaView& replica = {});
  ~ServerFront();  // ends all calls immediately

  const Endpoint& endpoint() const;
  std::optional<Endpoint> resp_endpoint() const;  // address for Redis clients; nullopt: none
  // Tells health probes that the server stops.
  void StopServing();
  // Ends the calls in progress by `deadline`. A call that waits in the shard ends only at
  // `deadline`.
  void Stop(Time deadline);

 private:
  struct Impl;
  explicit ServerFront(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::pserver
