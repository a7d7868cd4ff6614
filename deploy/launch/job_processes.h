// The processes of a job on this host that the supervisor has started.
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

// Owns the processes; the destructor kills those that still run. At most one process of a role and
// rank runs at a time. Not thread-safe.
class JobProcesses {
 public:
  // `callers_per_worker`: the replicas of a trainer, each a caller of the pservers.
  explicit JobProcesses(int callers_per_worker);

  // Adds a started process. REQUIRES: no other process of its role and rank runs.
  void Add(std::unique_ptr<JobProcess> process);
  void Remove(const JobProcess& process);
  void Clear() { all_.clear(); }
  const std::vector<std::unique_ptr<JobProcess>>& all() const { return all_; }

  bool Has(Role role) const;  // running or ended
  bool AnyRunning(Role role) const;
  // Whether a process has ended with 0.
  bool AnyDone() const;
  // The running process that a report names; null: none.
  JobProcess* Find(const NamedProcess& name) const;
  // Its name for the user: "heter worker 3".
  std::string NameOf(const NamedProcess& name) const;
  // Ranks of the running trainers that are members of the world, ascending.
  std::vector<int> MemberRanks() const;
  // Those that have ended since the last call.
  std::vector<JobProcess*> CollectEnded();
  void Signal(Role role, int signal);

  // Waits up to `timeout_ms` for one of `fds` or for output, and passes on the output.
  void Poll(std::vector<pollfd> fds, int timeout_ms);
  void CopyWindowSize();
  // Waits up to `most` for the terminal to accept all output.
  void FlushOutput(Duration most);

 private:
  int callers_per_worker_;
  std::vector<std::unique_ptr<JobProcess>> all_;
};

}  // namespace tandem::deploy
