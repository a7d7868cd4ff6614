#include "deploy/launch/pserver_sockets.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "common/base/check.h"
#include "common/base/endpoint.h"
#include "common/base/require.h"
#include "common/os/files.h"
#include "common/os/own_files.h"
#include "common/os/ports.h"
#include "common/rpc/listen.h"

namespace tandem::deploy {
namespace {

// Maximum length of the file name of a pserver's socket, in bytes. The longest name is
// "/pserver-1023".
constexpr size_t kFileNameMax = 16;

bool IsPrivate(const std::string& dir) {
  struct stat info {};
  return stat(dir.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
         (info.st_mode & 077) == 0;
}

// Returns whether `name` is "tandem-" and 16 hexadecimal digits, like the names from NewSocketDir.
bool IsSocketDirName(const std::string& name) {
  constexpr size_t kPrefix = 7;
  return name.size() == kPrefix + 16 && name.starts_with("tandem-") &&
         name.find_first_not_of("0123456789abcdef", kPrefix) == name.npos;
}

// Returns false only if it is certain that no server listens at the socket.
bool Answers(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return true;
  path.copy(address.sun_path, path.size());
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return true;
  const auto* to = reinterpret_cast<const sockaddr*>(&address);
  return connect(socket.get(), to, sizeof(address)) == 0 || errno != ECONNREFUSED;
}

bool HoldsDeadSocketsAlone(const std::string& dir) {
  const StatusOr<std::vector<std::string>> names = ListDir(dir);
  return names.ok() && std::ranges::all_of(*names, [&dir](const std::string& name) {
           const std::string path = dir + "/" + name;
           std::error_code error;
           return std::filesystem::is_socket(path, error) && !Answers(path);
         });
}

}  // namespace

Status PserverSockets::Open(const LaunchPlan& plan) {
  TD_REQUIRE(sockets_.empty());
  for (const ProcessPlan& p : plan.processes) {
    if (p.role == Role::kReplica) TD_RETURN_IF_ERROR(Reserve(p));
    if (p.role != Role::kPserver || p.endpoint.is_unix()) continue;
    // A standby on another host than its primary does not listen, so that clients find the primary.
    if (p.member >= 0 && plan.hosts.several) {
      TD_RETURN_IF_ERROR(Reserve(p));
      continue;
    }
    // The members of a pserver on one host have one address.
    if (p.member > 0) continue;
    TD_RETURN_IF_ERROR(Add(p));
  }
  return OkStatus();
}

Status PserverSockets::Add(const ProcessPlan& pserver) {
  if (pserver.endpoint.is_unix() || sockets_.contains(pserver.rank)) return OkStatus();
  StatusOr<rpc::Listening> listening =
      rpc::ListenOn({pserver.endpoint.host, pserver.endpoint.port});
  if (!listening.ok()) {
    return Unavailable(
        "cannot listen on %s: %s [TD4009]; hint: choose another address, or end the program that "
        "uses it",
        pserver.endpoint.Text(), std::string(listening.status().message()));
  }
  sockets_[pserver.rank] = std::move(listening->sockets);
  kept_.erase(pserver.rank);
  return OkStatus();
}

void PserverSockets::Keep(const ProcessPlan& pserver) {
  Release(pserver.rank);
  if (pserver.endpoint.is_unix()) return;
  // If another program takes the port first, Add reports that.
  StatusOr<Fd> fd = BindPort(pserver.endpoint.host, pserver.endpoint.port);
  if (fd.ok()) kept_[pserver.rank] = *std::move(fd);
}

Status PserverSockets::Reserve(const ProcessPlan& later) {
  if (!later.endpoint.is_unix()) {
    TD_ASSIGN_OR_RETURN(Fd fd, BindPort(later.endpoint.host, later.endpoint.port));
    reserved_.push_back(std::move(fd));
  }
  if (later.resp_port != 0) {
    TD_ASSIGN_OR_RETURN(Fd fd, BindPort("127.0.0.1", later.resp_port));
    reserved_.push_back(std::move(fd));
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

std::string NewSocketDir(const Environment& env) {
  unsigned char random[8];
  CHECK_EQ(getrandom(random, sizeof(random), 0), static_cast<ssize_t>(sizeof(random)));
  std::string name = "/tandem-";
  for (const unsigned char byte : random) name += absl::StrFormat("%02x", byte);
  const auto runtime = env.find("XDG_RUNTIME_DIR");
  if (runtime != env.end() && IsPrivate(runtime->second)) {
    std::string dir = runtime->second + name;
    if (ParseEndpoint("unix:" + dir + std::string(kFileNameMax, 'x')).ok()) return dir;
  }
  return "/tmp" + name;
}

StatusOr<Fd> MakePrivateDir(const std::string& path) {
  if (mkdir(path.c_str(), 0700) != 0) {
    if (errno == EEXIST) return AlreadyExists("%s already exists [TD2109]", path);
    return FileError(path, "cannot be made", errno);
  }
  Fd dir(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!dir.valid() || flock(dir.get(), LOCK_EX | LOCK_NB) != 0) {
    const Status why = FileError(path, "cannot be locked", errno);
    rmdir(path.c_str());
    return why;
  }
  return dir;
}

void RemoveDeadSocketDirs(const std::string& path, Duration age_min) {
  const std::filesystem::path beside = std::filesystem::path(path).parent_path();
  const auto newest = std::filesystem::file_time_type::clock::now() - age_min;
  for (const std::string& name : ListDir(beside).value_or(std::vector<std::string>())) {
    if (!IsSocketDirName(name)) continue;
    const std::string dir = beside / name;
    std::error_code error;
    const StatusOr<Fd> lock = OpenOwnDir(dir, OwnRule::kUser);
    if (!lock.ok() || !IsPrivate(dir) || std::filesystem::last_write_time(dir, error) > newest ||
        error)
      continue;
    // If a process holds the lock, the launcher of the directory is running.
    if (flock(lock->get(), LOCK_EX | LOCK_NB) != 0) continue;
    if (HoldsDeadSocketsAlone(dir)) std::filesystem::remove_all(dir, error);
  }
}

}  // namespace tandem::deploy
