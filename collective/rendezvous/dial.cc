#include <utility>

#include "collective/rendezvous/dial.h"

#include <vector>

#include "collective/rendezvous/resolve.h"

namespace tandem::collective {

namespace asio = boost::asio;
using asio::ip::tcp;
using Error = boost::system::error_code;

Status FromCode(uint32_t code, const std::string& message) {
  const bool known = code > 0 && code <= static_cast<uint32_t>(StatusCode::kUnauthenticated);
  return Status(known ? static_cast<StatusCode>(code) : StatusCode::kUnknown, message);
}

StatusOr<std::unique_ptr<BlockingIoContext::Socket>> DialPeer(BlockingIoContext& waiter,
                                                              const HostPort& where,
                                                              Time deadline) {
  TD_ASSIGN_OR_RETURN(const std::vector<asio::ip::address> addresses,
                      Resolve(waiter, where.host, deadline));
  Error error = asio::error::host_not_found;
  for (const asio::ip::address& address : addresses) {
    const tcp::endpoint endpoint(address, where.port);
    auto socket = std::make_unique<BlockingIoContext::Socket>(waiter.io());
    error = waiter.Await([&](auto done) { socket->async_connect(endpoint, done); },
                         [&] { BlockingIoContext::Close(*socket); }, deadline);
    if (!error) return socket;
  }
  return Unavailable("%s", error.message());
}

Status Greet(BlockingIoContext& waiter, const std::string& secret, Time deadline,
             PeerConnection& line, bool& again) {
  const auto broken = [&](const Error& error) {
    again = true;
    return Unavailable("the handshake with the peer rank failed: %s", error.message());
  };
  again = false;
  Error error = waiter.Write(*line.socket, &line.hello, sizeof(Hello), deadline);
  if (!error) error = waiter.Read(*line.socket, &line.challenge, sizeof(Greeting), deadline);
  if (error) return broken(error);
  TD_RETURN_IF_ERROR(CheckGreeting(line.challenge.greeting));
  Proof proof;
  Welcome welcome;
  error = waiter.Read(*line.socket, &line.challenge.nonce, sizeof(Nonce), deadline);
  proof.mac = MacOf(secret, "dialler", line.hello, line.challenge);
  if (!error) error = waiter.Write(*line.socket, &proof, sizeof(proof), deadline);
  if (!error) error = waiter.Read(*line.socket, &welcome, sizeof(welcome), deadline);
  if (error) return broken(error);
  if (welcome.code != 0) {
    again = welcome.code == static_cast<uint32_t>(StatusCode::kAborted);
    return FromCode(welcome.code, "refused: " + GetText(welcome.text));
  }
  if (!SameMac(welcome.mac, MacOf(secret, "listener", line.hello, line.challenge))) {
    return PermissionDenied(
        "the peer does not know the secret of job \"%s\" [TD6014]; hint: copy one secret file to "
        "all hosts",
        GetText(line.hello.job));
  }
  return OkStatus();
}

}  // namespace tandem::collective
