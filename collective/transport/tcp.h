// The transport of collectives over TCP, between ranks on one or several hosts.
#pragma once

#include <functional>
#include <memory>

#include "collective/rendezvous/rendezvous.h"
#include "collective/transport/transport.h"

namespace tandem::collective {

struct TcpOptions {
  Duration spin = std::chrono::microseconds(20);  // time for which a wait polls before it sleeps
  // Time after which a host that replies to no packet is lost; whole seconds, at least 1 s. The
  // kernel of a host replies, so a process that hangs is not lost. Zero: 20 s.
  Duration host_timeout = Duration::zero();
  // The transport calls this function several times per second on its thread. The transport fails
  // with an error that the function returns. Empty: nothing is checked.
  std::function<Status()> check;
};

// Creates a transport over TCP. Each pair of ranks has a data connection and a control connection
// for aborts and goodbyes. A thread of the transport reads the control connections. So all ranks
// detect immediately that a rank has died or aborted, even if they exchange no data with it and no
// operation runs. `mesh` comes from JoinWorld.
// RESOURCE_EXHAUSTED: the process has no descriptors left; the peers receive this error, too.
StatusOr<std::unique_ptr<Transport>> MakeTcpTransport(Mesh mesh, TcpOptions options = {});

}  // namespace tandem::collective
