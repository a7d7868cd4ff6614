// The pservers of a job that have standbys. tandemrun exchanges messages with the members of each
// such pserver (its primary and its standbys), and chooses its primary.
#pragma once

#include <poll.h>

#include <map>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "deploy/launch/job_journal.h"
#include "deploy/launch/job_processes.h"
#include "deploy/launch/launch_plan.h"
#include "deploy/launch/process/process.h"
#include "deploy/launch/server_group.h"

namespace tandem::deploy {

// Has a ServerGroup for each pserver with standbys, and connects the groups with the processes of
// the members. Ignores pservers without standbys. Not thread-safe. Never blocks.
class ServerGroups {
 public:
  // `journal` and `processes` must outlive this object.
  ServerGroups(const LaunchPlan& plan, JobJournal& journal, JobProcesses& processes);

  // Makes a pair of connected sockets for a member that is about to start. Stores tandemrun's end
  // in `process`, and adds the member's end to the descriptors that the member inherits
  // (`request`). Returns the member's end, which the caller closes after the start.
  StatusOr<Fd> Open(JobProcess& process, SpawnRequest& request);
  void OnStarted(const JobProcess& process);
  void OnEnded(const JobProcess& process);
  // Returns whether all members of this pserver run and have its complete state. REQUIRES: the
  // pserver has standbys.
  bool IsWhole(int rank) const;
  // Returns the sockets of all members, for poll().
  std::vector<pollfd> Sockets() const;
  // Handles the reports of the members, and sends commands. Asks each member for a report once per
  // second, and kills members that do not reply.
  void Step(Time now);

 private:
  void Receive(JobProcess& process, ServerGroup& group);
  void Send(int rank, const std::vector<ServerGroup::Command>& commands);
  JobProcess* Find(int rank, int member) const;
  // Kills the members of the pserver that hang.
  void KillHanging(int rank, const ServerGroup& group);
  // Warns every kWarnEvery while the pserver has no primary.
  void WarnOfNoPrimary(int rank, const ServerGroup& group, Time now);

  JobJournal& journal_;
  JobProcesses& processes_;
  std::map<int, ServerGroup> groups_;  // by the rank of the pserver
  Time next_ping_{};
  struct NoPrimary {
    Time since, warned;
  };
  std::map<int, NoPrimary> without_;  // pservers without a primary, by rank
};

}  // namespace tandem::deploy
