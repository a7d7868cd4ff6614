// The pservers with standbys of a job: their messages with tandemrun, and the choice of their
// primaries.
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

// Does nothing for pservers without standbys. Not thread-safe. Never blocks.
class ServerGroups {
 public:
  // `journal` and `processes` must outlive this object.
  ServerGroups(const LaunchPlan& plan, JobJournal& journal, JobProcesses& processes);

  // Makes the socket of a member, which `request` makes the member inherit. The caller closes the
  // returned end of the member after the start.
  StatusOr<Fd> Open(JobProcess& process, SpawnRequest& request);
  void OnStarted(const JobProcess& process);
  void OnEnded(const JobProcess& process);
  // Returns whether all members of this pserver run and have its complete state. REQUIRES: the
  // pserver has standbys.
  bool IsWhole(int rank) const;
  // Returns the sockets to wait for.
  std::vector<pollfd> Sockets() const;
  // Handles the reports of the members, and sends commands. Asks each member for a report once per
  // second, and kills members that do not reply.
  void Step(Time now);

 private:
  void Receive(JobProcess& process, ServerGroup& group);
  void Send(int rank, const std::vector<ServerGroup::Command>& commands);
  JobProcess* Find(int rank, int member) const;

  JobJournal& journal_;
  JobProcesses& processes_;
  std::map<int, ServerGroup> groups_;  // by the rank of the pserver
  Time next_ping_{};
};

}  // namespace tandem::deploy
