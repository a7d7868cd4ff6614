// TCP ports of this machine: whether one is free, and free ones.
#pragma once

#include <string>

#include "common/base/fd.h"
#include "common/base/status.h"

namespace tandem {

// A socket bound to host:port, not listening. `host` is an IPv4 address or a name of this machine,
// which stands for all its interfaces ("localhost" for 127.0.0.1). UNAVAILABLE when somebody has
// it.
StatusOr<Fd> BindPort(const std::string& host, int port);

// The first of `count` ports in a row, from 10000 on, that nobody on `host` has. They are not held,
// but lie outside of the range of which the kernel gives connections a port (ip_local_port_range):
// no connection takes one by chance before it is used. Where that range leaves no room for twice as
// many, all ports from 10000 on serve, and one may be taken by chance. UNAVAILABLE when none were
// found.
StatusOr<int> FreePorts(const std::string& host, int count);

}  // namespace tandem
