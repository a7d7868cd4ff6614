#include "deploy/launch/pserver_sockets.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/base/check.h"
#include "common/base/files.h"
#include "common/rpc/endpoint.h"
#include "common/rpc/listen.h"

namespace tandem::deploy {
namespace {

// Longer than any pserver's file name: "/pserver-1023".
constexpr size_t kFileNameMax = 16;

bool IsPrivate(const std::string& folder) {
  struct stat info {};
  return stat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
         (info.st_mode & 077) == 0;
}

}  // namespace

Status PserverSockets::Open(const LaunchPlan& plan) {
  for (const ProcessPlan& p : plan.processes) {
    if (p.role != Role::kPserver || p.endpoint.is_unix()) continue;
    StatusOr<Listening> listening = ListenOn({p.endpoint.host, p.endpoint.port});
    if (!listening.ok()) {
      return Unavailable(
          "cannot listen on %s: %s [TD4009]; hint: choose another address, or end "
          "the program that listens there",
          p.endpoint.Text(), std::string(listening.status().message()));
    }
    sockets_[p.rank] = std::move(listening->sockets);
  }
  return OkStatus();
}

void PserverSockets::HandOver(int rank, SpawnRequest& request) const {
  const auto it = sockets_.find(rank);
  if (it == sockets_.end()) return;
  std::string list;
  for (const Fd& socket : it->second) {
    request.inherited.push_back(socket.get());
    list += (list.empty() ? "" : ",") + std::to_string(socket.get());
  }
  request.argv.push_back("--listen_fd=" + list);
}

std::string NewSocketFolder(const Environment& env) {
  unsigned char random[8];
  CHECK_EQ(getrandom(random, sizeof(random), 0), static_cast<ssize_t>(sizeof(random)));
  std::string name = "/tandem-";
  for (const unsigned char byte : random) name += absl::StrFormat("%02x", byte);
  const auto runtime = env.find("XDG_RUNTIME_DIR");
  if (runtime != env.end() && IsPrivate(runtime->second)) {
    const std::string folder = runtime->second + name;
    if (ParseEndpoint("unix:" + folder + std::string(kFileNameMax, 'x')).ok()) return folder;
  }
  return "/tmp" + name;
}

Status MakePrivateFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0) return OkStatus();
  if (errno == EEXIST) return AlreadyExists("%s is there already", path);
  return FileError(path, "cannot be made", errno);
}

}  // namespace tandem::deploy
