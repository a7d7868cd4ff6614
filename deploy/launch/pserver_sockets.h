// The listening sockets of a job's pservers on this host. The launcher holds them while the job
// runs. Another user can therefore not take an address before a pserver starts, or between two
// processes of it.
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
  // Listens on the TCP addresses of the plan's pservers. Unix-domain sockets are skipped: their
  // pservers listen on them, in a private directory. UNAVAILABLE: an address is in use.
  Status Open(const LaunchPlan& plan);
  // Makes the pserver of this rank inherit its sockets.
  void HandOver(int rank, SpawnRequest& request) const;
  // Closes the sockets of a rank that will have no process any more, so that callers are rejected.
  void Release(int rank) { sockets_.erase(rank); }

 private:
  std::map<int, std::vector<Fd>> sockets_;  // by rank
};

// A new, unused name of a directory for Unix-domain sockets: in XDG_RUNTIME_DIR if that is private,
// else in /tmp. Does not create it.
std::string NewSocketDir(const Environment& env);
// Creates the directory for this user only, and returns a lock of it. RemoveDeadSocketDirs keeps
// a directory whose lock is open. ALREADY_EXISTS: the path exists.
StatusOr<Fd> MakePrivateDir(const std::string& path);
// Removes directories next to `path` of NewSocketDir that launchers of this user left at
// SIGKILL: no lock is held, the age is above `age_min`, and all entries are sockets that refuse
// connections.
void RemoveDeadSocketDirs(const std::string& path, Duration age_min = std::chrono::minutes(1));

}  // namespace tandem::deploy
