// The sockets between tandemrun and the members of its pservers with standbys
// (common/launcher/member_messages.h).
#pragma once

#include <poll.h>

#include <vector>

#include "common/base/status.h"
#include "common/os/fd.h"
#include "deploy/launch/hosts/job_messages.h"
#include "deploy/launch/job_processes.h"
#include "deploy/launch/process/process.h"

namespace tandem::deploy {

// Carries reports and commands of the members on this host. JobDirector chooses the primaries.
// Ignores processes that are no members. Not thread-safe. Never blocks.
class MemberSockets {
 public:
  explicit MemberSockets(JobProcesses& processes) : processes_(processes) {}  // must outlive this

  // Makes a pair of connected sockets for a member that is about to start. Stores tandemrun's end
  // in `process`, and adds the member's end to the descriptors that the member inherits
  // (`request`). Returns the member's end, which the caller closes after the start.
  StatusOr<Fd> Open(JobProcess& process, SpawnRequest& request) const;
  // Returns the sockets of all members, for poll().
  std::vector<pollfd> Sockets() const;
  // Returns what the members have sent.
  std::vector<MemberNews> Receive();
  // Sends a command to member `member` of pserver `server`, if it runs on this host.
  void Send(int server, int member, const MemberCommand& command) const;

 private:
  JobProcesses& processes_;
};

}  // namespace tandem::deploy
