#include "collective/host/connect.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_join.h"
#include "collective/shared/shared_memory.h"
#include "collective/transport/tcp.h"
#include "common/base/rng.h"

namespace tandem::collective {
namespace {

// Returns the connections of `mesh` among the ranks `members`, with new rank numbers from 0. The
// host names contain the job's rank numbers for messages.
Mesh Within(Mesh mesh, const std::vector<int>& members) {
  Mesh part;
  part.size = static_cast<int>(members.size());
  part.generation = mesh.generation;
  for (const int member : members) {
    const auto m = static_cast<size_t>(member);
    if (member == mesh.rank) part.rank = static_cast<int>(part.hosts.size());
    part.hosts.push_back(absl::StrFormat("rank %d of the job, %s", member, mesh.hosts[m]));
    part.control.push_back(std::move(mesh.control[m]));
    part.data.push_back(std::move(mesh.data[m]));
  }
  return part;
}

}  // namespace

StatusOr<std::unique_ptr<Communicator>> Connect(const WorldConfig& world,
                                                const HostCommunicatorConfig& config,
                                                const ConnectOptions& options) {
  const auto& members = options.members;
  const bool ascending =
      std::adjacent_find(members.begin(), members.end(), std::greater_equal<>()) == members.end();
  if (!members.empty() && (!ascending || members.front() < 0 || members.back() >= world.size ||
                           !std::binary_search(members.begin(), members.end(), world.rank))) {
    return InvalidArgument(
        "the members [%s] of the group of rank %d are invalid: expected ascending ranks below %d",
        absl::StrJoin(members, ","), world.rank, world.size);
  }
  const bool groups = config.rule.group > 1 && world.size > config.rule.group;
  const bool required = options.carrier == TransportKind::kSharedMemory;
  if (groups && required) {
    return InvalidArgument(
        "shared memory does not support groups of ranks, but the job has groups of %d ranks; hint: "
        "use collective_transport: TCP",
        config.rule.group);
  }
  const Time begin = SteadyNow();
  TD_ASSIGN_OR_RETURN(Mesh mesh, JoinWorld(world));
  if (!members.empty()) mesh = Within(std::move(mesh), members);
  const Time deadline = std::min(begin + world.timeout, SteadyNow() + world.connect_timeout);
  std::shared_ptr<SharedMemory> memory;
  if (mesh.size > 1 && options.carrier != TransportKind::kTcp && !groups) {
    TD_ASSIGN_OR_RETURN(memory,
                        ShareMemory(mesh, ShmCollectives::PartBytes(options.arena_bytes, mesh.size),
                                    required, deadline));
  }
  HostCommunicatorConfig named = config;
  named.name = memory == nullptr ? "tcp" : "shm";
  named.id = StreamKey(mesh.generation, world.job);
  TD_ASSIGN_OR_RETURN(std::unique_ptr<Transport> transport,
                      MakeTcpTransport(std::move(mesh),
                                       {.host_timeout = world.host_timeout, .check = world.check}));
  return std::unique_ptr<Communicator>(
      std::make_unique<HostCommunicator>(std::move(transport), named, std::move(memory)));
}

}  // namespace tandem::collective
