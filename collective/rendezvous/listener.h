// The listening socket of a rank, to which higher ranks connect. Internal to collective/, because
// it includes Asio.
#pragma once

#include <memory>
#include <string>

#include <boost/asio.hpp>

#include "collective/rendezvous/handshake_acceptor.h"
#include "collective/rendezvous/rendezvous.h"
#include "common/base/require.h"

namespace tandem::collective {

// Opens the listening socket and accepts connections. Not thread-safe: for one thread.
class Listener {
 public:
  // `config` and `io` must outlive this object.
  Listener(const WorldConfig& config, boost::asio::io_context& io)
      : config_(config), io_(io), given_(config.listen_fd), acceptor_(io) {}

  // Listens on config.listen_fd. If there is none, listens on `host` and `port`; port 0 means any
  // free port. Accepts connections from then on. If `host` means all addresses of the machine,
  // peers connect to the address `outside`. INVALID_ARGUMENT: the host is unknown, or
  // config.listen_fd is not a socket. UNAVAILABLE: the rank cannot listen, for example because the
  // port is in use.
  Status Open(const std::string& host, uint16_t port, const std::string& outside);
  bool is_open() const { return reception_ != nullptr; }

  // Returns the acceptor of connections. REQUIRES: is_open().
  HandshakeAcceptor& reception() {
    TD_REQUIRE(is_open());
    return *reception_;
  }
  // Returns the address to which other ranks connect.
  const HostPort& address() const { return address_; }

 private:
  Status Adopt();
  Status Bind(const std::string& host, uint16_t port);

  const WorldConfig& config_;
  boost::asio::io_context& io_;
  Fd given_;
  boost::asio::ip::tcp::acceptor acceptor_;
  HostPort address_;
  std::unique_ptr<HandshakeAcceptor> reception_;  // declared after the members that it uses
};

}  // namespace tandem::collective
