// The hosts of a job. One tandemrun runs on each host. The tandemrun at the rendezvous leads the
// job: all others connect to it, send it reports and receive its orders.
#pragma once

#include <poll.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/os/fd.h"
#include "common/os/ports.h"
#include "deploy/launch/hosts/host_link.h"
#include "deploy/launch/hosts/host_meeting.h"
#include "deploy/launch/hosts/host_messages.h"
#include "deploy/launch/hosts/job_director.h"

namespace tandem::deploy {

struct HostGroupOptions {
  int hosts = 2;  // number of hosts
  MeetingOptions meeting;
  std::string version;                // version of Tandem, for messages
  std::vector<std::string> settings;  // settings that must be equal on all hosts, as "--nproc=2"
  // Number of this host in an earlier run of the job, whose data it has; -1: none.
  int kept = -1;
  // true: this host was in an earlier run of the job. The leading host of that run may still lead
  // it, and may have to notice first that this host has left.
  bool again = false;
  bool numeric = false;  // true: the processes need IPv4 addresses of all hosts
  int ports = 0;         // number of ports that the processes of a host need at most
  // Time without a message after which a host is lost.
  Duration silence = std::chrono::seconds(5);
  Duration timeout = std::chrono::minutes(10);  // time limit for Join
  // Makes the certificates of the job for these hosts. Join calls this function on the leading
  // host, as soon as all hosts have joined. null: the job gets none.
  std::function<StatusOr<std::vector<RoleCertificate>>(const std::vector<JobHost>&)>
      make_certificates;
  // Join calls this function every few seconds with a text about its wait.
  std::function<void(const std::string&)> progress;
};

// The hosts of a job, seen from one of them. Not thread-safe.
class HostGroup {
 public:
  // Makes the group of a job on this host only.
  HostGroup();
  // Joins the job. Blocks until all hosts have joined, but at most for options.timeout.
  // DEADLINE_EXCEEDED: hosts are missing, or another host has the data of the same number.
  // PERMISSION_DENIED: the secret differs. FAILED_PRECONDITION: a setting or the version differs,
  // or a host that replaces a lost one has another address. ALREADY_EXISTS: the job has all its
  // hosts, and options.again is false. INVALID_ARGUMENT: `rendezvous` is not valid, or an address
  // is not numeric.
  static StatusOr<std::unique_ptr<HostGroup>> Join(HostGroupOptions options);
  ~HostGroup();

  bool alone() const { return layout_.hosts.size() == 1; }
  bool leads() const { return layout_.number == layout_.leader; }
  // Returns whether the leading host is lost. This host then ends its part of the job.
  bool lost_leader() const { return lost_leader_; }
  const HostLayout& layout() const { return layout_; }

  // Begins the job. Only the leading host uses `settings`. REQUIRES: called once, before Report and
  // Step.
  void Begin(JobDirector::Settings settings);
  // Sends a report of this host to the leading host.
  void Report(const JobReport& report);
  // Sends and receives what is possible without waiting. Returns orders for this host. If another
  // host was lost, the orders say what follows.
  std::vector<JobOrder> Step(Time now);
  // Returns the sockets for which the caller polls before the next Step.
  std::vector<pollfd> Sockets() const;
  // Returns the time of the next necessary Step.
  Time wakeup() const;
  // Tells the other hosts that this host ends. Waits up to `most` until they have the last orders.
  void Leave(Duration most);
  // Tells the other hosts that this host cannot start its processes because of `why`, so that they
  // name this reason for its loss. Then leaves as Leave does.
  void Fail(const Status& why, Duration most);

 private:
  // The connection of another host to the leading host.
  struct Peer {
    std::unique_ptr<HostLink> link;  // null: no host has this number now
    bool left = false;               // the host has ended in order
    int kept = -1;                   // HostJoin::kept
  };

  explicit HostGroup(HostGroupOptions options);
  std::string NameOf(int host) const;
  // Leads the job, or joins it.
  Status Enter(Time deadline);
  Status Gather(Time deadline);
  // Gives each host that has data of an earlier run its number, and the others the rest.
  void AssignNumbers();
  StatusOr<std::optional<HostLayout>> Ask(Time deadline);
  void AcceptGuests(Time now);
  void StepGuests(Time now);
  // Gives a guest a place in the job. Returns why it is refused.
  Status Welcome(std::unique_ptr<HostLink>& link, const HostJoin& join);
  // Checks that no host of the job has the number whose data the guest has.
  Status CheckKept(const HostJoin& join) const;
  void SendLayout(int number, bool replaces);
  std::vector<HostLink*> Links() const;  // the connections to hosts of the job
  void Flush(Time deadline);             // sends all queued messages
  std::vector<JobOrder> Lead(Time now);
  std::vector<JobOrder> Obey(Time now);
  void Progress(const std::string& text, Time deadline);

  const HostGroupOptions options_;
  const LinkKey key_;
  HostMeeting meeting_;
  // Ports of the processes of this host. They stay reserved while the job runs, so that other
  // tandemruns of this machine do not choose them.
  ReservedPorts ports_;
  HostLayout layout_;
  std::unique_ptr<JobDirector> director_;  // null: this host does not lead, or before Begin
  // The next two fields are for the leading host.
  std::vector<Peer> peers_;                        // by number of the host; this host has none
  std::vector<std::unique_ptr<HostLink>> guests_;  // connections without a place in the job
  // The connection to the leading host; null: it is lost, or this host leads.
  std::unique_ptr<HostLink> leader_;
  bool lost_leader_ = false;
  bool over_ = false;   // the job ends, so that the end of a connection is no loss
  Time refused_at_{};   // time of the last message about a stranger
  Time told_at_{};      // time of the last call of options.progress
  std::string reason_;  // why the last attempt to join failed; empty: unknown
};

}  // namespace tandem::deploy
