// Network addresses in text form: "host:port", "127.0.0.1:0", "[::1]:7000", or
// "unix:/run/user/1000/pserver-0" for a Unix-domain socket.
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tandem {

// Largest path of a Unix-domain socket, in bytes: sun_path of sockaddr_un ends with a zero byte.
inline constexpr size_t kUnixPathMax = 107;

struct Endpoint {
  std::string host;       // without brackets
  int port = 0;           // 0: the system chooses
  std::string path = {};  // absolute path of a Unix-domain socket; then host and port are unset
  bool is_unix() const { return !path.empty(); }
};

// INVALID_ARGUMENT: the message names the mistake. Commas separate addresses, so no address
// contains one.
StatusOr<Endpoint> ParseEndpoint(std::string_view text);
std::string ToString(const Endpoint& endpoint);  // brackets around IPv6 addresses
// True for 127.0.0.0/8, ::1, localhost and Unix-domain sockets.
bool IsLoopback(const Endpoint& endpoint);
// Returns the host that servers listen on and clients dial: "localhost" becomes 127.0.0.1 for both.
// With ::1 in /etc/hosts they could otherwise use different addresses, one of which may belong to
// another user.
std::string NumericLocalhost(const std::string& host);

}  // namespace tandem
