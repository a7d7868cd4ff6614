// TCP ports of this machine: binds ports and finds free ones.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem {

// Returns a socket bound to host:port, not listening. `host` is an IPv4 address or a name of this
// machine; a name stands for all its interfaces ("localhost" for 127.0.0.1). UNAVAILABLE: another
// process uses the port.
StatusOr<Fd> BindPort(const std::string& host, int port);

// Returns the first of `count` consecutive ports, from 10000 on, that are free on `host`. The ports
// are not reserved. They are outside the range from which the kernel assigns ports to connections
// (ip_local_port_range), so no connection gets one by chance. If this leaves room for fewer than 2
// * `count` ports, all ports from 10000 on are candidates. A connection may then get one by chance.
// UNAVAILABLE: no such ports.
StatusOr<int> FreePorts(const std::string& host, int count);

}  // namespace tandem
