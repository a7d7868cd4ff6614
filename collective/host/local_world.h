// Ranks that are threads of this process, connected over loopback like processes. Probes measure
// with them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "collective/communicator.h"
#include "collective/host/connect.h"
#include "collective/host/host_communicator.h"

namespace tandem::collective {

// Binds a socket to a free port of 127.0.0.1 and sets `port`. Rank 0 listens on it
// (WorldConfig::listen_fd).
StatusOr<Fd> BindLoopbackSocket(int* port);

class LocalWorld {
 public:
  // Connects `ranks` ranks on a free port of 127.0.0.1, with a random secret.
  static StatusOr<LocalWorld> Join(int ranks, const HostCommunicatorConfig& config,
                                   const ConnectOptions& options);

  int size() const { return static_cast<int>(ranks_.size()); }
  // Calls body(communicator) on one thread per rank. Returns the first failure after all calls have
  // returned.
  Status OnEveryRank(const std::function<Status(Communicator&)>& body);

 private:
  explicit LocalWorld(std::vector<std::unique_ptr<Communicator>> ranks)
      : ranks_(std::move(ranks)) {}

  std::vector<std::unique_ptr<Communicator>> ranks_;
};

}  // namespace tandem::collective
