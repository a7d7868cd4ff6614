// Connects ranks that are threads of this process over loopback, as Connect connects ranks in
// separate processes. Measurements use these ranks.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "collective/communicator.h"
#include "collective/host/connect.h"
#include "collective/host/host_communicator.h"

namespace tandem::collective {

// Binds a socket to a free port of 127.0.0.1 and sets `port` to this port. The caller passes the
// socket to rank 0 in WorldConfig::listen_fd, so that rank 0 listens on it.
StatusOr<Fd> BindLoopbackSocket(int* port);

class LocalWorld {
 public:
  // Connects `ranks` ranks on a free port of 127.0.0.1, with a random secret.
  static StatusOr<LocalWorld> Join(int ranks, const HostCommunicatorConfig& config,
                                   const ConnectOptions& options);

  int size() const { return static_cast<int>(ranks_.size()); }
  // Calls body(communicator) for each rank, on one thread per rank. Returns after all calls have
  // returned. The result is the failure of the lowest rank that failed, or OK.
  Status OnEveryRank(const std::function<Status(Communicator&)>& body);

 private:
  explicit LocalWorld(std::vector<std::unique_ptr<Communicator>> ranks)
      : ranks_(std::move(ranks)) {}

  std::vector<std::unique_ptr<Communicator>> ranks_;
};

}  // namespace tandem::collective
