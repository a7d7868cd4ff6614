// The dialling half of a rendezvous. Internal to collective/: drags in Asio.
#pragma once

#include <memory>

#include "collective/rendezvous/handshake.h"
#include "collective/rendezvous/waiter.h"

namespace tandem {

// A connection that has passed the handshake.
struct Line {
  std::unique_ptr<Waiter::Socket> socket;
  Hello hello;
  Challenge challenge;
};

// The status that a peer sent.
Status FromCode(uint32_t code, const std::string& message);

// UNAVAILABLE with what the system says.
StatusOr<std::unique_ptr<Waiter::Socket>> DialPeer(Waiter& waiter, const HostPort& where,
                                                   Time deadline);

// The handshake of whoever dials, on line.socket as line.hello. `again`: whether another attempt
// may end otherwise.
Status Greet(Waiter& waiter, const std::string& secret, Time deadline, Line& line, bool& again);

}  // namespace tandem
