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

// Writes the present time to the file at `path`. Only processes of this machine can read the time.
Status RenewLease(const std::string& path, Time now);
// Returns the time of the last RenewLease. DATA_LOSS: the file has another format. Other errors:
// the file cannot be read.
StatusOr<Time> LeaseRenewedAt(const std::string& path);

// Calls a function once if the lease expires.
class LeaseWatch {
 public:
  // Watches the lease at `path` in a thread. Calls `expired` with the time since the last renewal,
  // if this time is `limit` or more. The thread calls `expired`. A file that cannot be read is not
  // an expired lease, because the kernel ends the trainers of a tandemrun that has ended.
  LeaseWatch(std::string path, Duration limit, std::function<void(Duration)> expired);
  ~LeaseWatch();  // ends the thread
  LeaseWatch(const LeaseWatch&) = delete;
  LeaseWatch& operator=(const LeaseWatch&) = delete;

 private:
  class Thread;
  const std::unique_ptr<Thread> thread_;
};

}  // namespace tandem
