// The network side of a server: accepts calls and makes them on a shard. This header does not
// include gRPC.
#pragma once

#include <functional>
#include <memory>

#include "common/base/clock.h"
#include "common/base/endpoint.h"
#include "common/base/metrics.h"
#include "common/base/status.h"
#include "pserver/pserver.h"
#include "pserver/replication/log_follower.h"
#include "pserver/server_parts.h"

namespace tandem::pserver {

// Thread-safe, except for Start and the destructor.
class ServerFront {
 public:
  // Serves the shard of `parts`, which must outlive the front. `replica`: returns the progress of a
  // replica; the server then answers only calls that read. null: the server is no replica.
  static StatusOr<std::unique_ptr<ServerFront>> Start(
      PserverOptions options, ServerParts& parts, Metrics& metrics,
      std::function<LogFollower::Progress()> replica = nullptr);
  ~ServerFront();  // ends all calls immediately

  const Endpoint& endpoint() const;
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
