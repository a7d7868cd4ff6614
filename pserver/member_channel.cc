#include "pserver/member_channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"
#include "common/threads/runner.h"

namespace tandem::pserver {

MemberChannel::MemberChannel(Fd socket, Handler handle)
    : socket_(std::move(socket)), handle_(std::move(handle)) {
  TD_REQUIRE(socket_.valid() && handle_ != nullptr);
  thread_ = std::thread([this] { Loop(); });
}

MemberChannel::~MemberChannel() {
  // Makes the thread's receive call fail.
  shutdown(socket_.get(), SHUT_RDWR);
  thread_.join();
}

void MemberChannel::Send(const MemberReport& report) {
  const Status sent = SendMemberMessage(socket_.get(), Encode(report));
  LOG_IF(WARNING, !sent.ok()) << sent.message();
}

void MemberChannel::Loop() {
  SetThreadName("member");
  while (true) {
    pollfd waits = {socket_.get(), POLLIN, 0};
    (void)poll(&waits, 1, -1);
    const StatusOr<std::string> text = ReceiveMemberMessage(socket_.get());
    if (text.status().code() == StatusCode::kNotFound) continue;
    // tandemrun has ended, and the kernel ends this process too (deploy/launch/process/process.h).
    if (text.status().code() == StatusCode::kUnavailable) return;
    const StatusOr<MemberCommand> command =
        text.ok() ? DecodeMemberCommand(*text) : StatusOr<MemberCommand>(text.status());
    if (command.ok()) {
      handle_(*command, *this);
    } else {
      LOG(ERROR) << command.status().message();
    }
  }
}

}  // namespace tandem::pserver
