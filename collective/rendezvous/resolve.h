// Names of hosts. Internal to collective/: drags in Asio.
#pragma once

#include <string>
#include <vector>

#include <boost/asio.hpp>

#include "collective/rendezvous/blocking_io_context.h"

namespace tandem {

// The addresses of `host`, a name or an address, which the system is asked for until `deadline` at
// most. UNAVAILABLE.
StatusOr<std::vector<boost::asio::ip::address>> Resolve(BlockingIoContext& waiter,
                                                        const std::string& host, Time deadline);

}  // namespace tandem
