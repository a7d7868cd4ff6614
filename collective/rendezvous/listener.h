// Where a rank listens for those above it. Internal to collective/: drags in Asio.
#pragma once

#include <memory>
#include <string>

#include <boost/asio.hpp>

#include "collective/rendezvous/handshake_acceptor.h"
#include "collective/rendezvous/rendezvous.h"

namespace tandem {

// One thread.
class Listener {
 public:
  // Both must outlive it.
  Listener(const WorldConfig& config, boost::asio::io_context& io)
      : config_(config), io_(io), given_(config.listen_fd), acceptor_(io) {}

  // Listens on config.listen_fd, or else on `host`, port 0: any. From then on guests are let in;
  // they come to `outside` where that is every address. INVALID_ARGUMENT: no such host;
  // UNAVAILABLE: the port is taken.
  Status Open(const std::string& host, uint16_t port, const std::string& outside);
  bool is_open() const { return reception_ != nullptr; }

  // REQUIRES: is_open().
  HandshakeAcceptor& reception() { return *reception_; }
  // What is told to the others.
  const HostPort& address() const { return address_; }

 private:
  Status Adopt();
  Status Bind(const std::string& host, uint16_t port);

  const WorldConfig& config_;
  boost::asio::io_context& io_;
  Fd given_;
  boost::asio::ip::tcp::acceptor acceptor_;
  HostPort address_;
  std::unique_ptr<HandshakeAcceptor> reception_;  // after what it uses
};

// The address of this machine from which packets go to `host`; an empty one: to the network at
// large. NOT_FOUND when there is no way.
StatusOr<std::string> LocalAddressTowards(const std::string& host);

}  // namespace tandem
