// Connects ranks in different processes with the best transport.
#pragma once

#include <memory>
#include <vector>

#include "collective/host/host_communicator.h"
#include "collective/rendezvous/rendezvous.h"

namespace tandem::collective {

// Must be the same on all ranks.
struct ConnectOptions {
  TransportKind carrier = TransportKind::kAuto;
  // Bytes of shared memory that a rank can allocate. Untouched pages use no memory.
  size_t arena_bytes = size_t{8} << 30;
  // The ranks of the world that this communicator connects, ascending, including this rank. Inside
  // the communicator they are numbered from 0. Other communicators connect other ranks at the same
  // time; each rank is in exactly one such list. Empty: all ranks.
  std::vector<int> members = {};
};

// Calls JoinWorld (which blocks until all ranks have joined; its errors apply), then agrees with
// all ranks on a transport. Sets `config.name` and `config.id`. Groups (config.rule.group) run over
// TCP.
StatusOr<std::unique_ptr<Communicator>> Connect(const WorldConfig& world,
                                                const HostCommunicatorConfig& config = {},
                                                const ConnectOptions& options = {});

}  // namespace tandem::collective
