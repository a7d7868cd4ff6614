// The listening sockets of a job's pservers on this host. The launcher keeps the sockets open while
// the job runs, so that another user cannot bind their addresses before a pserver starts or
// restarts.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/os/fd.h"
#include "deploy/launch/launch_plan.h"
#include "deploy/launch/process/process.h"

namespace tandem::deploy {

class PserverSockets {
 public:
  // Listens on the TCP addresses of the plan's pservers. Unix-domain sockets are skipped: a pserver
  // itself listens on such a socket, in a private directory. Reserves the ports of replicas, and of
  // pservers with standbys on other hosts, which listen later: the system gives these ports to no
  // other program. UNAVAILABLE: an address is in
  // use.
  Status Open(const LaunchPlan& plan);
  // Makes the pserver of rank `rank` inherit the sockets of its address.
  void HandOver(int rank, SpawnRequest& request) const;
  // Closes the sockets of a rank that will not be restarted, so that the system rejects connections
  // to this rank.
  void Release(int rank) { sockets_.erase(rank); }
  // Listens on the address of a pserver that the job gets while it runs. Its rank may have had the
  // address before (Keep). Unix-domain sockets are skipped. UNAVAILABLE: the address is in use.
  Status Add(const ProcessPlan& pserver);
  // Like Release, but reserves the port, because the pserver may start again with this address.
  void Keep(const ProcessPlan& pserver);

 private:
  Status Reserve(const ProcessPlan& later);

  std::map<int, std::vector<Fd>> sockets_;  // sockets of each rank
  std::vector<Fd> reserved_;                // bound sockets that do not listen
  std::map<int, Fd> kept_;                  // bound sockets of ranks that may start again
};

// Returns a new, unused path for a directory of Unix-domain sockets. The parent directory is
// XDG_RUNTIME_DIR if that directory is private, otherwise /tmp. Does not create the directory.
std::string NewSocketDir(const Environment& env);
// Creates a directory to which only this user has access, and locks it. While the returned lock is
// open, RemoveDeadSocketDirs does not remove the directory. ALREADY_EXISTS: the path exists.
StatusOr<Fd> MakePrivateDir(const std::string& path);
// Removes socket directories in the parent of `path` that killed launchers of this user have left.
// Removes only directories whose lock no process holds, that are older than `age_min`, and that
// contain only sockets that refuse connections.
void RemoveDeadSocketDirs(const std::string& path, Duration age_min = std::chrono::minutes(1));

}  // namespace tandem::deploy
