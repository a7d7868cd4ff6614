// Binds TCP ports of this machine and finds free ports.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem {

// Returns a socket that is bound to host:port and does not listen yet. `host` is an IPv4 address or
// a name of this machine. "localhost" means 127.0.0.1; any other name means all interfaces of the
// machine. UNAVAILABLE: another process uses the port.
StatusOr<Fd> BindPort(const std::string& host, int port);

// Finds `count` consecutive ports, from 10000 on, that are free on `host`, and returns the first
// one. The ports are not reserved. The ports are outside ip_local_port_range, so the kernel does
// not assign them to outgoing connections. If fewer than 2 * `count` consecutive ports are outside
// that range, the result may be any free ports from 10000 on. UNAVAILABLE: there are no such ports.
StatusOr<int> FreePorts(const std::string& host, int count);

// Consecutive ports that this process reserves. FreePorts and ReservePorts of other processes do
// not find them. BindPort and other sockets with SO_REUSEADDR can use them.
struct ReservedPorts {
  int first = 0;            // the first port
  std::vector<Fd> sockets;  // one bound socket per port, which does not listen
};
// Finds ports as FreePorts does, and reserves them until the sockets are closed.
StatusOr<ReservedPorts> ReservePorts(const std::string& host, int count);

}  // namespace tandem
