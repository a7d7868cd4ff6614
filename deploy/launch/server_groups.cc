#include "deploy/launch/server_groups.h"

#include <signal.h>
#include <sys/socket.h>

#include <cerrno>

#include "absl/strings/str_format.h"
#include "common/base/require.h"

namespace tandem::deploy {
namespace {

constexpr Duration kPingEvery = std::chrono::seconds(1);
// Time without a primary after which, and then again, the user is warned.
constexpr Duration kWarnEvery = std::chrono::seconds(10);

}  // namespace

ServerGroups::ServerGroups(const LaunchPlan& plan, JobJournal& journal, JobProcesses& processes)
    : journal_(journal), processes_(processes) {
  if (plan.standbys == 0) return;
  for (const ProcessPlan& p : plan.processes) {
    if (p.member >= 0) groups_.try_emplace(p.rank, p.rank, plan.standbys + 1, plan.quorum);
  }
}

StatusOr<Fd> ServerGroups::Open(JobProcess& process, SpawnRequest& request) {
  if (process.plan->member < 0) return Fd();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return ResourceExhausted("cannot make a socket to %s: %s", process.plan->Name(),
                             ErrnoText(errno));
  }
  process.member_socket.Reset(ends[0]);
  process.standby = true;
  request.inherited.push_back(ends[1]);
  request.argv.push_back(absl::StrFormat("--member_fd=%d", ends[1]));
  return Fd(ends[1]);
}

void ServerGroups::OnStarted(const JobProcess& process) {
  const int rank = process.plan->rank;
  if (process.plan->member < 0) return;
  ServerGroup& group = groups_.at(rank);
  group.OnStarted(process.plan->member);
  Send(rank, group.Next());
}

void ServerGroups::OnEnded(const JobProcess& process) {
  const int rank = process.plan->rank;
  if (process.plan->member < 0) return;
  ServerGroup& group = groups_.at(rank);
  group.OnEnded(process.plan->member);
  Send(rank, group.Next());
}

bool ServerGroups::IsWhole(int rank) const {
  TD_REQUIRE(groups_.contains(rank));
  return groups_.at(rank).IsWhole();
}

std::vector<pollfd> ServerGroups::Sockets() const {
  std::vector<pollfd> sockets;
  if (groups_.empty()) return sockets;
  for (const auto& p : processes_.all()) {
    if (p->member_socket.valid() && p->running()) {
      sockets.push_back({p->member_socket.get(), POLLIN, 0});
    }
  }
  return sockets;
}

void ServerGroups::Step(Time now) {
  if (groups_.empty()) return;
  for (const auto& p : processes_.all()) {
    if (p->member_socket.valid() && p->running()) Receive(*p, groups_.at(p->plan->rank));
  }
  for (auto& [rank, group] : groups_) Send(rank, group.Next());
  if (now < next_ping_) return;
  next_ping_ = now + kPingEvery;
  for (auto& [rank, group] : groups_) {
    Send(rank, group.Ping());
    KillHanging(rank, group);
    WarnOfNoPrimary(rank, group, now);
  }
}

void ServerGroups::KillHanging(int rank, const ServerGroup& group) {
  for (const auto& p : processes_.all()) {
    if (p->plan->rank != rank || p->plan->member < 0 || !p->running() || p->stuck) continue;
    if (!group.Hangs(p->plan->member)) continue;
    const std::string name = p->plan->Name();
    const int limit =
        p->member_socket.valid() ? ServerGroup::kUnansweredMax : ServerGroup::kUnansweredMaxEnd;
    const std::string text =
        absl::StrFormat("no reply to more than %d requests of tandemrun", limit);
    journal_.Say(absl::StrFormat("%s does not reply (%s): killing it", name, text));
    journal_.Note("silent", name, p->process->pid(), text);
    p->unresponsive = kPingEvery * limit;
    p->Signal(SIGKILL);
  }
}

void ServerGroups::WarnOfNoPrimary(int rank, const ServerGroup& group, Time now) {
  TD_REQUIRE(rank >= 0);
  if (group.serving()) {
    without_.erase(rank);
    return;
  }
  NoPrimary& without = without_.try_emplace(rank, NoPrimary{now, now}).first->second;
  if (now - without.warned < kWarnEvery) return;
  without.warned = now;
  journal_.Say(absl::StrFormat("warning: pserver %d has had no primary for %.0f s: %s", rank,
                               Seconds(now - without.since), group.Awaited()));
}

void ServerGroups::Receive(JobProcess& process, ServerGroup& group) {
  while (true) {
    const StatusOr<std::string> text = ReceiveMemberMessage(process.member_socket.get());
    if (text.status().code() == StatusCode::kUnavailable) {
      group.OnClosed(process.plan->member);
      return process.member_socket.Reset();
    }
    if (!text.ok()) return;
    const StatusOr<MemberReport> report = DecodeMemberReport(*text);
    if (!report.ok() || !group.OnReport(process.plan->member, *report)) continue;
    process.standby = false;
    // The times for which trainers have waited until now were waits for the previous primary. They
    // do not count as waits for this process, which is considered to start now.
    process.started = SteadyNow();
    process.here = true;
    const std::string how = absl::StrFormat("term %d", group.term());
    journal_.Note("promoted", process.plan->Name(), process.process->pid(), how);
    if (group.replaced()) {
      journal_.Say(absl::StrFormat("%s is the primary now (%s)", process.plan->Name(), how));
    }
  }
}

void ServerGroups::Send(int rank, const std::vector<ServerGroup::Command>& commands) {
  for (const ServerGroup::Command& c : commands) {
    const JobProcess* const process = Find(rank, c.member);
    if (process == nullptr || !process->member_socket.valid()) continue;
    // A member that does not read has ended or hangs. Step finds both cases.
    (void)SendMemberMessage(process->member_socket.get(), Encode(c.command));
  }
}

JobProcess* ServerGroups::Find(int rank, int member) const {
  TD_REQUIRE(member >= 0);
  for (const auto& p : processes_.all()) {
    if (p->plan->rank == rank && p->plan->member == member && p->running()) return p.get();
  }
  return nullptr;
}

}  // namespace tandem::deploy
