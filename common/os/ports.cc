#include "common/os/ports.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <fstream>
#include <random>
#include <utility>

#include "common/os/host_limits.h"

namespace tandem {
namespace {

// Lowest port that FreePorts returns. Many common services use lower ports.
constexpr int kFirstPort = 10000;
constexpr int kLastPort = 65535;
constexpr int kAttempts = 200;

struct PortRange {
  int first, last;
  int size() const { return last - first + 1; }
};

// Returns the larger of the two port ranges outside of the kernel's range (ip_local_port_range).
PortRange ServerPorts() {
  // default values of ip_local_port_range, the ports that Linux assigns to outgoing connections
  int low = 32768, high = 60999;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> low >> high;
  const PortRange below = {kFirstPort, low - 1}, above = {high + 1, kLastPort};
  return below.size() >= above.size() ? below : above;
}

StatusOr<Fd> Bind(const std::string& host, int port, bool reuse) {
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return SystemError("cannot create a socket", errno);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  const char* const text = host == "localhost" ? "127.0.0.1" : host.c_str();
  if (inet_pton(AF_INET, text, &address.sin_addr) != 1) {
    address.sin_addr.s_addr = htonl(INADDR_ANY);
  }
  const int on = 1;
  if (reuse) setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return Unavailable("cannot use port %d of %s: %s [TD4009]", port, host, ErrnoText(errno));
  }
  return fd;
}

}  // namespace

StatusOr<Fd> BindPort(const std::string& host, int port) { return Bind(host, port, true); }

StatusOr<int> FreePorts(const std::string& host, int count) {
  TD_ASSIGN_OR_RETURN(const ReservedPorts ports, ReservePorts(host, count));
  return ports.first;
}

StatusOr<ReservedPorts> ReservePorts(const std::string& host, int count) {
  PortRange range = ServerPorts();
  if (range.size() < 2 * count) range = {kFirstPort, kLastPort};
  std::random_device random;
  Status why =
      Unavailable("cannot find %d consecutive free ports: the usable range is %d to %d [TD4009]",
                  count, range.first, range.last);
  for (int attempt = 0; attempt < kAttempts && range.size() >= count; ++attempt) {
    std::uniform_int_distribution<int> starts(range.first, range.last - count + 1);
    ReservedPorts ports;
    ports.first = starts(random);
    while (static_cast<int>(ports.sockets.size()) < count) {
      auto fd = Bind(host, ports.first + static_cast<int>(ports.sockets.size()), /*reuse=*/false);
      if (!fd.ok()) {
        why = fd.status();
        break;
      }
      ports.sockets.push_back(*std::move(fd));
    }
    if (static_cast<int>(ports.sockets.size()) < count) continue;
    // A socket that is bound without this option excludes all others. With the option it admits
    // sockets that also have it.
    const int on = 1;
    for (const Fd& fd : ports.sockets) {
      setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    }
    return ports;
  }
  return why;
}

}  // namespace tandem
