// Connects ranks in different processes over TCP or shared memory.
#pragma once

#include <memory>
#include <vector>

#include "collective/host/host_communicator.h"
#include "collective/rendezvous/rendezvous.h"

namespace tandem::collective {

// Options of Connect. They must be equal on all ranks.
struct ConnectOptions {
  TransportKind carrier = TransportKind::kAuto;
  // Maximum shared memory of a rank in bytes. A page needs memory only after its first access.
  size_t arena_bytes = size_t{8} << 30;
  // The ranks of the world that this communicator connects, in ascending order, including this
  // rank. In the communicator these ranks have new numbers from 0. Other communicators may connect
  // the other ranks at the same time, but each rank must be in exactly one list. Empty: all ranks.
  std::vector<int> members = {};
};

// Calls JoinWorld, which blocks until all ranks have joined. Then all ranks agree on TCP or shared
// memory. Groups (config.rule.group) always use TCP. The function replaces `config.name` and
// `config.id`. INVALID_ARGUMENT: options.members are invalid, or options.carrier is kSharedMemory
// although there are groups. Connect also returns the errors of JoinWorld and ShareMemory.
StatusOr<std::unique_ptr<Communicator>> Connect(const WorldConfig& world,
                                                const HostCommunicatorConfig& config = {},
                                                const ConnectOptions& options = {});

}  // namespace tandem::collective
