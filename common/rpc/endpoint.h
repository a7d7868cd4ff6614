// Addresses as people write them: "host:port", "127.0.0.1:0", "[::1]:7000", and of a Unix-domain
// socket "unix:/run/user/1000/pserver-0".
#pragma once

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace tandem::rpc {

// Bytes of a Unix-domain socket's path: sun_path of sockaddr_un ends with a zero byte.
inline constexpr size_t kUnixPathMax = 107;

struct Endpoint {
  std::string host;       // without brackets
  int port = 0;           // 0: the system chooses
  std::string path = {};  // absolute, of a Unix-domain socket; then there is no host and no port
  bool is_unix() const { return !path.empty(); }
};

// INVALID_ARGUMENT saying what is wrong. A comma stands between addresses, so none holds one.
StatusOr<Endpoint> ParseEndpoint(std::string_view text);
std::string ToString(const Endpoint& endpoint);  // brackets around IPv6 addresses
// 127.0.0.0/8, ::1, localhost, and Unix-domain sockets.
bool IsLoopback(const Endpoint& endpoint);
// The host as servers listen and clients dial: "localhost" is 127.0.0.1 for both. With ::1 in
// /etc/hosts they could meet at different addresses, of which one may be another user's.
std::string NumericLocalhost(const std::string& host);

}  // namespace tandem::rpc
