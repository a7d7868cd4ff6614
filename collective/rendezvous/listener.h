// The listening socket of a rank, for higher ranks. Internal to collective/, because it includes
// Asio.
#pragma once

#include <memory>
#include <string>

#include <boost/asio.hpp>

#include "collective/rendezvous/handshake_acceptor.h"
#include "collective/rendezvous/rendezvous.h"
#include "common/base/require.h"

namespace tandem::collective {

// Opens the socket and accepts connections. For one thread.
class Listener {
 public:
  // Both must outlive this.
  Listener(const WorldConfig& config, boost::asio::io_context& io)
      : config_(config), io_(io), given_(config.listen_fd), acceptor_(io) {}

  // Listens on config.listen_fd, or else on `host` and `port` (0: any). Accepts connections from
  // then on. If `host` means all addresses, peers connect to `outside`. INVALID_ARGUMENT: no such
  // host. UNAVAILABLE: the port is in use.
  Status Open(const std::string& host, uint16_t port, const std::string& outside);
  bool is_open() const { return reception_ != nullptr; }

  // REQUIRES: is_open().
  HandshakeAcceptor& reception() {
    TD_REQUIRE(is_open());
    return *reception_;
  }
  // The address for the other ranks.
  const HostPort& address() const { return address_; }

 private:
  Status Adopt();
  Status Bind(const std::string& host, uint16_t port);

  const WorldConfig& config_;
  boost::asio::io_context& io_;
  Fd given_;
  boost::asio::ip::tcp::acceptor acceptor_;
  HostPort address_;
  std::unique_ptr<HandshakeAcceptor> reception_;  // after the members that it uses
};

// Returns the address of this machine from which packets to `host` are sent; an empty `host` means
// the network in general. NOT_FOUND: there is no route.
StatusOr<std::string> LocalAddressTowards(const std::string& host);

}  // namespace tandem::collective
