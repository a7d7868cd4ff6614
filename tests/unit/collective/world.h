// Helpers that run N ranks in one test process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collective/communicator.h"
#include "collective/host/connect.h"
#include "collective/host/inproc.h"

namespace tandem::collective {

using World = std::vector<std::unique_ptr<Communicator>>;

inline Time In(double seconds) {
  return SteadyNow() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

// Runs `body(rank)` on one thread per rank. Returns when all threads have ended.
inline void OnEveryRank(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) threads.emplace_back([&body, r] { body(r); });
  for (std::thread& t : threads) t.join();
}

// A socket bound to a free port of this machine.
struct Door {
  int fd = -1;
  int port = 0;
  std::string address() const { return "127.0.0.1:" + std::to_string(port); }
};
Door BindLoopbackSocket();

// Opens a blocking connection to `port`. The connection belongs to no rank.
Fd Dial(int port);

// Returns the configuration of a rank of a small test job. Rank 0 listens on the socket of `door`.
WorldConfig TestWorld(const Door& door, int rank, int size);

inline StatusOr<std::unique_ptr<Communicator>> ConnectTcp(
    const WorldConfig& world, const HostCommunicatorConfig& config = {}) {
  return Connect(world, config, {.carrier = TransportKind::kTcp});
}

// Connects all ranks of a world over sockets.
World MakeTcpWorld(int size, const HostCommunicatorConfig& config = {},
                   const ConnectOptions& options = {.carrier = TransportKind::kTcp});
// Connects all ranks of a world over shared memory, with 64 MB for each rank.
inline World MakeShmWorld(int size, const HostCommunicatorConfig& config = {}) {
  return MakeTcpWorld(size, config, {TransportKind::kSharedMemory, size_t{64} << 20});
}

}  // namespace tandem::collective
