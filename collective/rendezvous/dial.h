// The dialling half of a rendezvous. Internal to collective/: drags in Asio.
#pragma once

#include <memory>

#include "collective/rendezvous/blocking_io_context.h"
#include "collective/rendezvous/handshake.h"

namespace tandem {

// A connection that has passed the handshake.
struct PeerConnection {
  std::unique_ptr<BlockingIoContext::Socket> socket;
  Hello hello;
  Challenge challenge;
};

// The status that a peer sent.
Status FromCode(uint32_t code, const std::string& message);

// UNAVAILABLE with what the system says.
StatusOr<std::unique_ptr<BlockingIoContext::Socket>> DialPeer(BlockingIoContext& waiter,
                                                              const HostPort& where, Time deadline);

// The handshake of whoever dials, on line.socket as line.hello. `again`: whether another attempt
// may end otherwise.
Status Greet(BlockingIoContext& waiter, const std::string& secret, Time deadline,
             PeerConnection& line, bool& again);

}  // namespace tandem
