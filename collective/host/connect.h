// The communicator of ranks that are processes, over what carries best.
#pragma once

#include <memory>
#include <vector>

#include "collective/host/host_communicator.h"
#include "collective/rendezvous/rendezvous.h"

namespace tandem {

// The same on all ranks.
struct ConnectOptions {
  TransportKind carrier = TransportKind::kAuto;
  // Of shared memory that a rank can allocate. Pages that nobody touches take none.
  size_t arena_bytes = size_t{8} << 30;
  // The ranks of the world that this communicator connects, this one among them, ascending; within
  // they count from 0. Others connect other ranks at the same time; each rank is in one such list.
  // Empty: all.
  std::vector<int> members = {};
};

// JoinWorld (blocks until all ranks are there; its errors), then an agreement on what carries.
// `config.name` and `config.id` are set. Groups (config.rule.group) are served by TCP.
StatusOr<std::unique_ptr<Communicator>> Connect(const WorldConfig& world,
                                                const HostCommunicatorConfig& config = {},
                                                const ConnectOptions& options = {});

}  // namespace tandem
