// The lease of a tandemrun of several hosts (deploy/launch/hosts), as a file in the log directory.
// tandemrun renews the lease while it runs. If tandemrun is stopped (SIGSTOP), the other hosts take
// this host for lost and continue with other processes, so the trainers of this host must end.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace tandem {

struct LauncherLease {
  Time renewed;    // the time of the last renewal, by the steady clock of this machine
  Duration limit;  // time after which a lease that is not renewed has expired

  bool operator==(const LauncherLease&) const = default;
};

// Writes the lease to the file at `path`.
Status RenewLease(const std::string& path, const LauncherLease& lease);
// Reads the lease. DATA_LOSS: the file has another format. Other errors: the file cannot be read.
StatusOr<LauncherLease> ReadLease(const std::string& path);

class LeaseWatch;

// Watches the lease at `path`. If it expires, writes a message of the program `program` on stderr
// and ends this process at once with kExitLostPeer, because other hosts continue without this one.
// Returns null if `path` is empty: the job is on one host.
std::unique_ptr<LeaseWatch> EndWithLease(const std::string& path, const char* program);

// Calls a function once if the lease expires.
class LeaseWatch {
 public:
  // Watches the lease at `path` in a thread. The thread calls `expired` with the time since the
  // last renewal, if the lease has expired. A file that cannot be read is not an expired lease,
  // because the kernel ends the trainers of a tandemrun that has ended.
  LeaseWatch(std::string path, std::function<void(Duration)> expired);
  ~LeaseWatch();  // ends the thread
  LeaseWatch(const LeaseWatch&) = delete;
  LeaseWatch& operator=(const LeaseWatch&) = delete;

 private:
  class Thread;
  const std::unique_ptr<Thread> thread_;
};

}  // namespace tandem
