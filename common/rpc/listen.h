// Listening sockets of a server.
#pragma once

#include <string>
#include <vector>

#include "common/base/fd.h"
#include "common/base/status.h"
#include "common/rpc/endpoint.h"

namespace tandem::rpc {

struct Listening {
  std::vector<Fd> sockets;  // they listen, and do not block
  int port = 0;
};

// Listens on the Unix-domain socket (ListenOnPath), or on every address of the host name, all with
// one port, or on none: an address that is left out could be taken by another user, to whom callers
// would then go. "localhost" is 127.0.0.1, "0.0.0.0" and "::" are all addresses of the machine.
// ALREADY_EXISTS when an address is in use, UNAVAILABLE otherwise; the message is the reason alone.
StatusOr<Listening> ListenOn(const Endpoint& endpoint);
// The same for addresses as numbers.
StatusOr<Listening> ListenOnAll(const std::vector<std::string>& addresses, int port);

// A Unix-domain socket. Its folder must be this user's, and others must not write there:
// PERMISSION_DENIED. A file that a server left, and where nothing listens any more, is replaced.
StatusOr<Listening> ListenOnPath(const std::string& path);

// The address that a socket is bound to; the host is empty for a Unix-domain socket.
StatusOr<Endpoint> BoundAddress(int fd);

}  // namespace tandem::rpc
