#include "deploy/launch/member_sockets.h"

#include <sys/socket.h>

#include <cerrno>
#include <string>

#include "absl/strings/str_format.h"
#include "common/base/require.h"
#include "common/os/host_limits.h"

namespace tandem::deploy {
namespace {

// Reads one message of a member. Returns false if there is none now.
bool ReceiveOne(JobProcess& process, std::vector<MemberNews>& news) {
  TD_REQUIRE(process.member_socket.valid());
  MemberNews one{MemberNews::Kind::kState, process.plan->rank, process.plan->member, {}};
  const StatusOr<std::string> text = ReceiveMemberMessage(process.member_socket.get());
  if (text.status().code() == StatusCode::kUnavailable) {
    one.kind = MemberNews::Kind::kClosed;
    news.push_back(one);
    process.member_socket.Reset();
    return false;
  }
  if (!text.ok()) return false;
  const StatusOr<MemberReport> report = DecodeMemberReport(*text);
  if (!report.ok()) return true;
  one.state = *report;
  news.push_back(one);
  return true;
}

}  // namespace

StatusOr<Fd> MemberSockets::Open(JobProcess& process, SpawnRequest& request) const {
  if (process.plan->member < 0) return Fd();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return SystemError("cannot create a socket to " + process.plan->Name(), errno);
  }
  process.member_socket.Reset(ends[0]);
  process.standby = true;
  request.inherited.push_back(ends[1]);
  request.argv.push_back(absl::StrFormat("--member_fd=%d", ends[1]));
  return Fd(ends[1]);
}

std::vector<pollfd> MemberSockets::Sockets() const {
  std::vector<pollfd> sockets;
  for (const auto& p : processes_.all()) {
    if (p->member_socket.valid() && p->running()) {
      sockets.push_back({p->member_socket.get(), POLLIN, 0});
    }
  }
  return sockets;
}

std::vector<MemberNews> MemberSockets::Receive() {
  std::vector<MemberNews> news;
  for (const auto& p : processes_.all()) {
    if (!p->member_socket.valid() || !p->running()) continue;
    while (ReceiveOne(*p, news)) {
    }
  }
  return news;
}

void MemberSockets::Send(int server, int member, const MemberCommand& command) const {
  TD_REQUIRE(member >= 0);
  for (const auto& p : processes_.all()) {
    if (p->plan->rank != server || p->plan->member != member || !p->running()) continue;
    if (!p->member_socket.valid()) return;
    // A member that does not read has ended or hangs. JobDirector finds both cases.
    (void)SendMemberMessage(p->member_socket.get(), Encode(command));
    return;
  }
}

}  // namespace tandem::deploy
