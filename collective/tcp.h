// The communicator of ranks on several hosts: collectives over TCP.
#pragma once

#include <memory>

#include "collective/host_communicator.h"
#include "collective/rendezvous.h"

namespace tandem {

// Between each two ranks one connection carries data, and another aborts and goodbyes, on which the
// transport's own thread listens: a rank that dies or aborts is known at once, even to ranks that
// do not talk to it and while no operation runs. `mesh` comes from JoinWorld. A wait looks for
// bytes for `spin` before it sleeps.
std::unique_ptr<Transport> MakeTcpTransport(Mesh mesh,
                                            Duration spin = std::chrono::microseconds(20));

// JoinWorld (blocks until all ranks are there; its errors), then a communicator over the mesh.
// `config.name` and `config.id` are set.
StatusOr<std::unique_ptr<Communicator>> ConnectTcp(const WorldConfig& world,
                                                   HostCommunicatorConfig config = {});

}  // namespace tandem
