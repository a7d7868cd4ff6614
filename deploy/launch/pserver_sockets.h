// The addresses of a job's pservers on this host. The launcher holds them while the job runs, so
// that no other user takes one before a pserver starts, or between two processes of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/fd.h"
#include "common/base/status.h"
#include "deploy/launch/launch_plan.h"
#include "deploy/launch/process.h"

namespace tandem::deploy {

class PserverSockets {
 public:
  // Listens on the TCP addresses of the plan's pservers. Unix-domain sockets lie in a private
  // folder (PrivateFolder), where their pservers listen by themselves. UNAVAILABLE when an address
  // is taken.
  Status Open(const LaunchPlan& plan);
  // The pserver of this rank inherits its sockets.
  void HandOver(int rank, SpawnRequest& request) const;
  // No process will listen there any more, so callers must be refused.
  void Release(int rank) { sockets_.erase(rank); }

 private:
  std::map<int, std::vector<Fd>> sockets_;  // by rank
};

// A name that no other folder has, of a folder for Unix-domain sockets: in XDG_RUNTIME_DIR where
// that is private, else in /tmp. It is not made.
std::string NewSocketFolder(const Environment& env);
// Makes the folder for this user alone, and gives a lock of it. While the lock is open nobody takes
// the folder for a dead one. ALREADY_EXISTS when there is something of this name.
StatusOr<Fd> MakePrivateFolder(const std::string& path);
// Removes folders beside `path` of NewSocketFolder that launchers of this user left at SIGKILL:
// they have no lock, are older than `age_min`, and hold nothing but sockets that answer no more.
void RemoveDeadSocketFolders(const std::string& path, Duration age_min = std::chrono::minutes(1));

}  // namespace tandem::deploy
