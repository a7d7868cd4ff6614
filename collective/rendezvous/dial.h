// The connecting side of the handshake. Internal to collective/, because it includes Asio.
#pragma once

#include <memory>

#include "collective/rendezvous/blocking_io_context.h"
#include "collective/rendezvous/handshake.h"

namespace tandem::collective {

// A connection after a successful handshake.
struct PeerConnection {
  std::unique_ptr<BlockingIoContext::Socket> socket;
  Hello hello;
  Challenge challenge;
};

// Returns the status that a peer sent.
Status FromCode(uint32_t code, const std::string& message);

// Connects to `where`. UNAVAILABLE: the connection failed; the message is the system's.
StatusOr<std::unique_ptr<BlockingIoContext::Socket>> DialPeer(BlockingIoContext& waiter,
                                                              const HostPort& where, Time deadline);

// Runs the connecting side of the handshake on line.socket, as line.hello. Sets `again` if another
// attempt may succeed.
Status Greet(BlockingIoContext& waiter, const std::string& secret, Time deadline,
             PeerConnection& line, bool& again);

}  // namespace tandem::collective
