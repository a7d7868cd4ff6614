#include "collective/host/local_world.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <random>
#include <thread>

#include "collective/status_copy.h"

namespace tandem::collective {

StatusOr<Fd> BindLoopbackSocket(int* port) {
  Fd door(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (!door.valid() ||
      ::bind(door.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
      ::getsockname(door.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return Unavailable("cannot open a port on 127.0.0.1: %s", ErrnoText(errno));
  }
  *port = ntohs(address.sin_port);
  return door;
}

namespace {

std::string RandomSecret() {
  std::random_device dice;  // a source of random numbers of the operating system
  std::string secret;
  for (int i = 0; i < 8; ++i) secret += absl::StrFormat("%08x", dice());
  return secret;
}

Status OnThreads(size_t ranks, const std::function<Status(size_t)>& body) {
  std::vector<Status> ended(ranks);
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks; ++r) threads.emplace_back([&, r] { ended[r] = body(r); });
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : ended) TD_RETURN_IF_ERROR(OwnCopy(status));
  return OkStatus();
}

}  // namespace

StatusOr<LocalWorld> LocalWorld::Join(int ranks, const HostCommunicatorConfig& config,
                                      const ConnectOptions& options) {
  int port = 0;
  TD_ASSIGN_OR_RETURN(Fd door, BindLoopbackSocket(&port));
  const std::string secret = RandomSecret();
  std::vector<std::unique_ptr<Communicator>> made(static_cast<size_t>(ranks));
  TD_RETURN_IF_ERROR(OnThreads(made.size(), [&](size_t r) -> Status {
    WorldConfig world;
    world.rank = static_cast<int>(r);
    world.size = ranks;
    world.job = "probe";
    world.secret = secret;
    world.rendezvous = absl::StrFormat("127.0.0.1:%d", port);
    if (r == 0) world.listen_fd = door.Release();
    TD_ASSIGN_OR_RETURN(made[r], Connect(world, config, options));
    return OkStatus();
  }));
  return LocalWorld(std::move(made));
}

Status LocalWorld::OnEveryRank(const std::function<Status(Communicator&)>& body) {
  return OnThreads(ranks_.size(), [&](size_t r) {
    Status status = body(*ranks_[r]);
    // If a rank has failed, its communicator is aborted so that the other ranks do not wait for it.
    if (!status.ok()) ranks_[r]->Abort(std::string(status.message()));
    return status;
  });
}

}  // namespace tandem::collective
