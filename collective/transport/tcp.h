// The transport of ranks on several hosts.
#pragma once

#include <memory>

#include "collective/rendezvous/rendezvous.h"
#include "collective/transport/transport.h"

namespace tandem {

// Between each two ranks one connection carries data, and another aborts and goodbyes, on which the
// transport's own thread listens: a rank that dies or aborts is known at once, even to ranks that
// do not talk to it and while no operation runs. `mesh` comes from JoinWorld. A wait looks for
// bytes for `spin` before it sleeps.
std::unique_ptr<Transport> MakeTcpTransport(Mesh mesh,
                                            Duration spin = std::chrono::microseconds(20));

}  // namespace tandem
