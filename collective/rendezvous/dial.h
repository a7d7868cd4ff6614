// The side of the handshake that connects. Internal to collective/, because it includes Asio.
#pragma once

#include <memory>

#include "collective/rendezvous/blocking_io_context.h"
#include "collective/rendezvous/handshake.h"

namespace tandem::collective {

// A connection to another rank, with the messages of the handshake.
struct PeerConnection {
  std::unique_ptr<BlockingIoContext::Socket> socket;
  Hello hello;
  Challenge challenge;
};

// Converts the code and the text that a peer sent to a Status.
Status FromCode(uint32_t code, const std::string& message);

// Connects to the address `where`. UNAVAILABLE: the host is unknown or the connection failed; the
// message has the system's error text.
StatusOr<std::unique_ptr<BlockingIoContext::Socket>> DialPeer(BlockingIoContext& waiter,
                                                              const HostPort& where, Time deadline);

// Runs the handshake on line.socket. `line.hello` is the Hello message of this side. Fills
// `line.challenge`. After an error, `again` tells whether another attempt may succeed.
Status Greet(BlockingIoContext& waiter, const std::string& secret, Time deadline,
             PeerConnection& line, bool& again);

}  // namespace tandem::collective
