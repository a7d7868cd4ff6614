// The transport of collectives over TCP, between ranks on one or several hosts.
#pragma once

#include <memory>

#include "collective/rendezvous/rendezvous.h"
#include "collective/transport/transport.h"

namespace tandem::collective {

// Creates a transport over TCP. Each pair of ranks has a data connection and a control connection
// for aborts and goodbyes. A thread of the transport reads the control connections. So all ranks
// detect immediately that a rank has died or aborted, even if they exchange no data with it and no
// operation runs. `mesh` comes from JoinWorld. A wait polls for `spin` before it sleeps.
std::unique_ptr<Transport> MakeTcpTransport(Mesh mesh,
                                            Duration spin = std::chrono::microseconds(20));

}  // namespace tandem::collective
