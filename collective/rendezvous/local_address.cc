#include "collective/rendezvous/local_address.h"

#include <boost/asio.hpp>

namespace tandem::collective {

namespace asio = boost::asio;
using Error = boost::system::error_code;

StatusOr<std::string> LocalAddressTowards(const std::string& host) {
  // 192.0.2.1 is reserved for documentation (RFC 5737). Here it stands for any network address.
  const std::string to = host.empty() ? "192.0.2.1" : host;
  asio::io_context io;
  asio::ip::udp::resolver resolver(io);
  Error error;
  // Connecting a datagram socket sends no packet. The system only chooses a route and a local
  // address.
  for (const auto& found : resolver.resolve(to, "9", error)) {
    asio::ip::udp::socket socket(io);
    socket.connect(found.endpoint(), error);
    if (error) continue;
    const auto local = socket.local_endpoint(error);
    if (!error) return local.address().to_string();
  }
  return NotFound("this host has no route to %s [TD3001]", host.empty() ? "any network" : host);
}

}  // namespace tandem::collective
