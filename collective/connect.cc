#include "collective/connect.h"

#include <algorithm>

#include "collective/shared_memory.h"
#include "collective/tcp.h"
#include "common/base/rng.h"

namespace tandem {

StatusOr<std::unique_ptr<Communicator>> Connect(const WorldConfig& world,
                                                const HostCommunicatorConfig& config,
                                                const ConnectOptions& options) {
  const bool groups = config.group > 1 && world.size > config.group;
  const bool required = options.carrier == Carrier::kSharedMemory;
  if (groups && required) {
    return InvalidArgument("groups of %d ranks are served by TCP alone, and not by shared memory",
                           config.group);
  }
  const Time begin = SteadyNow();
  TD_ASSIGN_OR_RETURN(Mesh mesh, JoinWorld(world));
  const Time deadline = std::min(begin + world.timeout, SteadyNow() + world.connect_timeout);
  std::shared_ptr<SharedMemory> memory;
  if (world.size > 1 && options.carrier != Carrier::kTcp && !groups) {
    TD_ASSIGN_OR_RETURN(memory, ShareMemory(mesh, Board::PartBytes(options.arena_bytes, world.size),
                                            required, deadline));
  }
  HostCommunicatorConfig named = config;
  named.name = memory == nullptr ? "tcp" : "shm";
  named.id = StreamKey(mesh.generation, world.job);
  return std::unique_ptr<Communicator>(std::make_unique<HostCommunicator>(
      MakeTcpTransport(std::move(mesh)), named, std::move(memory)));
}

}  // namespace tandem
