// Resolves host names. Internal to collective/, because it includes Asio.
#pragma once

#include <string>
#include <vector>

#include <boost/asio.hpp>

#include "collective/rendezvous/blocking_io_context.h"

namespace tandem::collective {

// Returns the IP addresses of `host`, a name or an address. Waits for the system's resolver until
// `deadline`. UNAVAILABLE: the name has no IP address, or the resolver did not reply in time.
StatusOr<std::vector<boost::asio::ip::address>> Resolve(BlockingIoContext& waiter,
                                                        const std::string& host, Time deadline);

}  // namespace tandem::collective
