#include "common/rpc/listen.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace tandem::rpc {
namespace {

// Length of the kernel's queue of connections. It is large enough for a burst of callers between
// two rounds of the acceptor.
constexpr int kBacklog = 512;
constexpr int kPortAttempts = 16;
constexpr char kAnyV6[] = "::", kAnyV4[] = "0.0.0.0";

struct FreeAddresses {
  void operator()(addrinfo* found) const { freeaddrinfo(found); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

StatusOr<Addresses> Resolve(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
      error != 0) {
    return Unavailable("%s", gai_strerror(error));
  }
  return Addresses(found);
}

StatusOr<Endpoint> ToEndpoint(const sockaddr* name, socklen_t length) {
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
  if (const int error = getnameinfo(name, length, host, sizeof(host), port, sizeof(port),
                                    NI_NUMERICHOST | NI_NUMERICSERV);
      error != 0) {
    return Unavailable("%s", gai_strerror(error));
  }
  return Endpoint{host, std::stoi(port)};
}

// Returns the numeric addresses of `host`, without the duplicates that /etc/hosts may have.
StatusOr<std::vector<std::string>> AddressesOf(const std::string& host) {
  // "localhost" is not resolved, because its entries in /etc/hosts differ between machines. If the
  // entries contain ::1, callers may try ::1 first.
  if (host == "localhost") return std::vector<std::string>{NumericLocalhost(host)};
  TD_ASSIGN_OR_RETURN(const Addresses found, Resolve(host, 0, 0));
  std::vector<std::string> addresses;
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    TD_ASSIGN_OR_RETURN(const Endpoint at, ToEndpoint(one->ai_addr, one->ai_addrlen));
    if (std::find(addresses.begin(), addresses.end(), at.host) == addresses.end()) {
      addresses.push_back(at.host);
    }
  }
  return addresses;
}

StatusOr<Fd> ListenOnOne(const std::string& address, int port) {
  TD_ASSIGN_OR_RETURN(const Addresses found, Resolve(address, port, AI_NUMERICHOST));
  Fd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Unavailable("cannot create a socket: %s", ErrnoText(errno));
  const int on = 1;
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (found->ai_family == AF_INET6) {
    const int alone = address == kAnyV6 ? 0 : 1;
    (void)setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &alone, sizeof(alone));
  }
  if (bind(fd.get(), found->ai_addr, found->ai_addrlen) == 0 && listen(fd.get(), kBacklog) == 0) {
    return fd;
  }
  const int error = errno;
  return error == EADDRINUSE ? AlreadyExists("%s", ErrnoText(error))
                             : Unavailable("%s", ErrnoText(error));
}

// Checks owner and mode of the directory of a socket. Another user who can write to the directory
// could put a socket there and receive the callers.
Status CheckDir(const std::string& path) {
  const std::string dir = path.substr(0, std::max<size_t>(1, path.rfind('/')));
  struct stat info {};
  if (stat(dir.c_str(), &info) != 0) {
    return Unavailable("cannot examine directory %s: %s [TD2106]", dir, ErrnoText(errno));
  }
  if (info.st_uid == geteuid() && (info.st_mode & 022) == 0) return OkStatus();
  return PermissionDenied(
      "other users may write to directory %s (mode %o, owner %d) [TD2113]; hint: create a "
      "directory for the socket with mkdir -m 700",
      dir, info.st_mode & 07777, info.st_uid);
}

StatusOr<Fd> BindPath(const sockaddr_un& address) {
  Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return Unavailable("cannot create a socket: %s", ErrnoText(errno));
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      listen(fd.get(), kBacklog) == 0) {
    return fd;
  }
  const int error = errno;
  return error == EADDRINUSE ? AlreadyExists("%s", ErrnoText(error))
                             : Unavailable("%s", ErrnoText(error));
}

// Returns whether the file at `address` is a socket on which no process listens.
bool IsLeftOver(const sockaddr_un& address) {
  struct stat info {};
  if (lstat(address.sun_path, &info) != 0 || !S_ISSOCK(info.st_mode)) return false;
  const Fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return fd.valid() &&
         connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 &&
         errno == ECONNREFUSED;
}

StatusOr<Listening> TryAll(const std::vector<std::string>& addresses, int port) {
  Listening listening{{}, port};
  for (const std::string& address : addresses) {
    StatusOr<Fd> fd = ListenOnOne(address, listening.port);
    if (!fd.ok() && addresses.size() == 1) return fd.status();
    if (!fd.ok()) return Annotate(fd.status(), ToString(Endpoint{address, listening.port}));
    TD_ASSIGN_OR_RETURN(const Endpoint bound, BoundAddress(fd->get()));
    listening.port = bound.port;
    listening.sockets.push_back(*std::move(fd));
  }
  return listening;
}

}  // namespace

StatusOr<Listening> ListenOnAll(const std::vector<std::string>& addresses, int port) {
  StatusOr<Listening> listening = TryAll(addresses, port);
  // If the system chose the port for the first address, the port may be in use at another address.
  // The function then tries another port.
  for (int i = 1; i < kPortAttempts && port == 0 && !listening.ok(); ++i) {
    listening = TryAll(addresses, port);
  }
  return listening;
}

StatusOr<Listening> ListenOn(const Endpoint& endpoint) {
  if (endpoint.is_unix()) return ListenOnPath(endpoint.path);
  if (endpoint.host == kAnyV4 || endpoint.host == kAnyV6) {
    // Uses one socket for both address families if the machine has IPv6.
    auto both = ListenOnAll({kAnyV6}, endpoint.port);
    if (both.ok() || absl::IsAlreadyExists(both.status())) return both;
    return ListenOnAll({kAnyV4}, endpoint.port);
  }
  TD_ASSIGN_OR_RETURN(const std::vector<std::string> addresses, AddressesOf(endpoint.host));
  return ListenOnAll(addresses, endpoint.port);
}

StatusOr<Listening> ListenOnPath(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return InvalidArgument(
        "socket path %s has %d bytes, expected at most %d bytes [TD6024]; hint: choose a directory "
        "with a shorter name",
        path, path.size(), kUnixPathMax);
  }
  std::copy(path.begin(), path.end(), address.sun_path);
  TD_RETURN_IF_ERROR(CheckDir(path));
  StatusOr<Fd> fd = BindPath(address);
  if (absl::IsAlreadyExists(fd.status()) && IsLeftOver(address)) {
    unlink(path.c_str());
    fd = BindPath(address);
  }
  if (!fd.ok()) return fd.status();
  Listening listening;
  listening.sockets.push_back(*std::move(fd));
  return listening;
}

bool IsOwnPeer(int fd) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return peer.uid == geteuid() || peer.uid == 0;
}

StatusOr<Endpoint> BoundAddress(int fd) {
  sockaddr_storage name{};
  socklen_t length = sizeof(name);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0) {
    return InvalidArgument("cannot read the address of descriptor %d: %s", fd, ErrnoText(errno));
  }
  if (name.ss_family == AF_UNIX) return Endpoint{};
  return ToEndpoint(reinterpret_cast<sockaddr*>(&name), length);
}

}  // namespace tandem::rpc
