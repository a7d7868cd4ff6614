// Ranks that are threads of this process, joined over loopback as processes are: what probes
// measure with.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "collective/communicator.h"
#include "collective/host/connect.h"
#include "collective/host/host_communicator.h"

namespace tandem {

// A socket bound to a free port of 127.0.0.1, where rank 0 is to listen (WorldConfig::listen_fd).
StatusOr<Fd> BindLoopbackSocket(int* port);

class LocalWorld {
 public:
  // On a free port of 127.0.0.1, with a secret that nobody else knows.
  static StatusOr<LocalWorld> Join(int ranks, const HostCommunicatorConfig& config,
                                   const ConnectOptions& options);

  int size() const { return static_cast<int>(ranks_.size()); }
  // body(communicator) on a thread per rank; returns when all have, with the first failure.
  Status OnEveryRank(const std::function<Status(Communicator&)>& body);

 private:
  explicit LocalWorld(std::vector<std::unique_ptr<Communicator>> ranks)
      : ranks_(std::move(ranks)) {}

  std::vector<std::unique_ptr<Communicator>> ranks_;
};

}  // namespace tandem
