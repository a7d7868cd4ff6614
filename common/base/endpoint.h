// Network addresses in text form: "host:port", "127.0.0.1:0", "[::1]:7000", or
// "unix:/run/user/1000/pserver-0" for a Unix-domain socket. A server whose standbys are on other
// hosts has several addresses, "10.0.0.1:7000|10.0.0.2:7000", of which one answers at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace tandem {

// Maximum length of the path of a Unix-domain socket, in bytes. sockaddr_un::sun_path has one byte
// more, for the final zero byte.
inline constexpr size_t kUnixPathMax = 107;

struct Endpoint {
  std::string host;  // host name or address; an IPv6 address has no brackets here
  int port = 0;      // TCP port; 0: the system chooses a free port
  // Absolute path of a Unix-domain socket; if it is set, host and port are unset.
  std::string path = {};
  // The further addresses of the same server, which are numeric; empty: the server has one address.
  std::vector<Endpoint> others = {};
  bool is_unix() const { return !path.empty(); }
};

// Parses one address. A comma is an error, because a comma separates the addresses of a list.
// INVALID_ARGUMENT: the text is not an address; the message names the mistake.
StatusOr<Endpoint> ParseEndpoint(std::string_view text);
// Parses the addresses of one server, separated by '|'. INVALID_ARGUMENT: as for ParseEndpoint, or
// one of several addresses is no IPv4 address with a port.
StatusOr<Endpoint> ParseServerAddress(std::string_view text);
// Returns the address as "host:port" or "unix:PATH", with all addresses of a server. An IPv6
// address gets brackets.
std::string ToString(const Endpoint& endpoint);
// Returns true for 127.0.0.0/8, ::1, localhost and Unix-domain sockets. Of several addresses, all
// must be such addresses.
bool IsLoopback(const Endpoint& endpoint);
// Returns 127.0.0.1 for "localhost", and every other `host` unchanged. Servers and clients both
// call this function, so that a server and its clients use the same address. If /etc/hosts also
// lists ::1, a client could otherwise connect to ::1, where the process of another user may listen.
std::string NumericLocalhost(const std::string& host);

}  // namespace tandem
