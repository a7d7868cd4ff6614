#include "tests/unit/collective/world.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/base/check.h"

namespace tandem::collective {

Door BindLoopbackSocket() {
  Door door;
  door.fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  CHECK_EQ(::bind(door.fd, reinterpret_cast<sockaddr*>(&address), length), 0);
  CHECK_EQ(::getsockname(door.fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  door.port = ntohs(address.sin_port);
  return door;
}

Fd Dial(int port) {
  const Time deadline = In(10);
  while (true) {
    Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) return fd;
    if (SteadyNow() > deadline) return Fd();
    std::this_thread::yield();
  }
}

WorldConfig TestWorld(const Door& door, int rank, int size) {
  WorldConfig world;
  world.rank = rank;
  world.size = size;
  world.job = "test";
  world.secret = "the secret of the test";
  world.rendezvous = door.address();
  world.timeout = std::chrono::seconds(30);
  if (rank == 0) world.listen_fd = door.fd;
  return world;
}

World MakeTcpWorld(int size, const HostCommunicatorConfig& config, const ConnectOptions& options) {
  const Door door = BindLoopbackSocket();
  World world(static_cast<size_t>(size));
  OnEveryRank(size, [&](int r) {
    auto made = Connect(TestWorld(door, r, size), config, options);
    CHECK(made.ok()) << made.status();
    world[static_cast<size_t>(r)] = std::move(*made);
  });
  return world;
}

}  // namespace tandem::collective
