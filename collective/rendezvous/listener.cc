#include <utility>

#include "collective/rendezvous/listener.h"

#include <sys/socket.h>

#include "common/base/check.h"

namespace tandem::collective {

namespace asio = boost::asio;
using asio::ip::tcp;
using Error = boost::system::error_code;

Status Listener::Adopt() {
  const int fd = given_.get();
  sockaddr_storage address;
  socklen_t length = sizeof(address);
  Error error;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return InvalidArgument("listen_fd %d is not a socket: %s", fd, ErrnoText(errno));
  }
  acceptor_.assign(address.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), fd, error);
  if (!error) given_.Release();
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error) return Unavailable("cannot listen on listen_fd %d: %s", fd, error.message());
  return OkStatus();
}

Status Listener::Bind(const std::string& host, uint16_t port) {
  Error error;
  asio::ip::address address = asio::ip::make_address(host, error);
  if (error) {
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(host, "", tcp::resolver::passive, error);
    if (error || found.empty()) {
      return InvalidArgument(
          "rank %d cannot listen on %s: unknown host (%s) [TD3009]; hint: set --listen_host to an "
          "address of this host",
          config_.rank, host, error.message());
    }
    address = found.begin()->endpoint().address();
  }
  const tcp::endpoint endpoint(address, port);
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (!error) return OkStatus();
  return Unavailable(
      "rank %d cannot listen on %s: %s [TD3009]; hint: choose another port, or end the program "
      "that uses it",
      config_.rank, ToString(HostPort{host, port}), error.message());
}

Status Listener::Open(const std::string& host, uint16_t port, const std::string& outside) {
  TD_RETURN_IF_ERROR(given_.valid() ? Adopt() : Bind(host, port));
  Error error;
  const tcp::endpoint bound = acceptor_.local_endpoint(error);
  if (error)
    return Unavailable("rank %d cannot listen on any address: %s [TD3009]", config_.rank,
                       error.message());
  address_ = {bound.address().is_unspecified() ? outside : bound.address().to_string(),
              bound.port()};
  reception_ = std::make_unique<HandshakeAcceptor>(io_, acceptor_, config_);
  return OkStatus();
}

}  // namespace tandem::collective
