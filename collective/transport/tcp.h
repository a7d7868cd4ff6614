// The transport between ranks on several hosts.
#pragma once

#include <memory>

#include "collective/rendezvous/rendezvous.h"
#include "collective/transport/transport.h"

namespace tandem::collective {

// Creates a transport over TCP. Each pair of ranks has a data connection and a control connection
// for aborts and goodbyes. The transport's own thread reads the control connections. So a rank that
// dies or aborts is detected immediately, even by ranks that exchange no data with it and while no
// operation runs. `mesh` comes from JoinWorld. A wait polls for `spin` before it sleeps.
std::unique_ptr<Transport> MakeTcpTransport(Mesh mesh,
                                            Duration spin = std::chrono::microseconds(20));

}  // namespace tandem::collective
