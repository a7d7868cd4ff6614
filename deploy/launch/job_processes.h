// The processes of a job that the supervisor has started on this host.
#pragma once

#include <poll.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "deploy/launch/job_process.h"

namespace tandem::deploy {

// Owns the processes; the destructor kills processes that are still running. At most one process of
// each role, rank, member and replica number runs at the same time. Not thread-safe.
class JobProcesses {
 public:
  // `callers_per_worker` is the number of replicas of a trainer. Each replica is a caller of
  // pservers.
  explicit JobProcesses(int callers_per_worker);

  // Adds a process that was started. REQUIRES: no process of its role, rank, member and replica
  // number is running.
  void Add(std::unique_ptr<JobProcess> process);
  void Remove(const JobProcess& process);
  void Clear() { all_.clear(); }
  const std::vector<std::unique_ptr<JobProcess>>& all() const { return all_; }

  bool Has(Role role) const;  // returns whether a process, running or ended, has this role
  bool AnyRunning(Role role) const;
  // Returns the running process that a report names: of a pserver with standbys, its primary. null:
  // no running process has this name.
  JobProcess* Find(const NamedProcess& name) const;
  // Return the running process of this name (ProcessPlan::Name), and the one whose end was
  // collected; null: there is none.
  JobProcess* FindRunning(const std::string& name) const;
  JobProcess* FindEnded(const std::string& name) const;
  // Returns the name of the process for the user, such as "heter worker 3".
  std::string NameOf(const NamedProcess& name) const;
  // Returns the processes that have ended since the last call.
  std::vector<JobProcess*> CollectEnded();
  void Signal(Role role, int signal);

  // Waits up to `timeout_ms` for one of `fds` or for output. Copies the output to logs and
  // terminal.
  void Poll(std::vector<pollfd> fds, int timeout_ms);
  void CopyWindowSize();
  // Waits until the terminal has accepted all output, for at most `most`.
  void FlushOutput(Duration most);

 private:
  int callers_per_worker_;
  std::vector<std::unique_ptr<JobProcess>> all_;
};

}  // namespace tandem::deploy
