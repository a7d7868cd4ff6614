// Creates the listening sockets of a server.
#pragma once

#include <string>
#include <vector>

#include "common/base/endpoint.h"
#include "common/base/status.h"
#include "common/os/fd.h"

namespace tandem::rpc {

struct Listening {
  std::vector<Fd> sockets;  // sockets that listen and are non-blocking
  int port = 0;
};

// Listens on a Unix-domain socket (ListenOnPath), or on every address of the host name with the
// same port. If the function cannot listen on one of the addresses, it fails: another user could
// listen on that address and receive the callers. "localhost" is 127.0.0.1; "0.0.0.0" and "::" are
// all addresses of the machine. ALREADY_EXISTS: an address is in use. UNAVAILABLE: any other
// failure. The message contains the reason. It contains the address only if the host name has
// several addresses.
StatusOr<Listening> ListenOn(const Endpoint& endpoint);
// Like ListenOn, but `addresses` are numeric.
StatusOr<Listening> ListenOnAll(const std::vector<std::string>& addresses, int port);

// Listens on a Unix-domain socket. Replaces the socket file of a server that has ended.
// PERMISSION_DENIED: this user does not own the directory, or other users can write to the
// directory. INVALID_ARGUMENT: the path is too long.
StatusOr<Listening> ListenOnPath(const std::string& path);

// Returns whether the peer of a connected Unix-domain socket runs as this process's user or as
// root.
bool IsOwnPeer(int fd);

// Returns the address that a socket is bound to. The host is empty for a Unix-domain socket.
StatusOr<Endpoint> BoundAddress(int fd);

}  // namespace tandem::rpc
