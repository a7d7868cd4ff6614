#include "collective/transport/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>

#include "collective/rendezvous/handshake.h"
#include "collective/status_copy.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/os/fd.h"
#include "common/os/host_limits.h"
#include "common/threads/runner.h"

namespace tandem::collective {
namespace {

// Time for which a call waits for the reason on the control connection after its data connection
// has ended.
constexpr Duration kReasonWait = std::chrono::milliseconds(500);
// If sent bytes are not acknowledged within this time, the kernel ends the connection.
constexpr Duration kUserTimeout = std::chrono::seconds(20);
constexpr int kKeepIdleS = 5, kKeepIntervalS = 3, kKeepCount = 4;
constexpr int kCheckMs = 100;  // interval of TcpOptions::check

// A message on the control connection between two ranks.
struct ControlMessage {
  static constexpr uint32_t kMagic = 0x414d4454;  // the characters "TDMA"
  static constexpr uint16_t kAbort = 1, kGoodbye = 2, kRelay = 3;
  uint32_t magic = kMagic;
  uint16_t kind = 0;
  uint16_t code = 0;     // StatusCode of an abort
  char text[1016] = {};  // the reason of an abort; zero-terminated text
};
static_assert(sizeof(ControlMessage) == 1024);

// Sends a message on all control connections of `mesh`, without blocking. A peer that cannot accept
// the message immediately does not get it, because such a peer hangs or is lost.
void TellPeers(Mesh& mesh, uint16_t kind, const Status& status) {
  ControlMessage message;
  message.kind = kind;
  message.code = static_cast<uint16_t>(status.code());
  PutText(std::string(status.message()), message.text);
  const auto bytes = std::as_bytes(std::span(&message, 1));
  for (SealedSocket& line : mesh.control) {
    if (!line.valid()) continue;
    line.TrySend(bytes, {});
    // After the shutdown the peer reads this rank's last message before the end of the stream.
    if (kind == ControlMessage::kGoodbye) ::shutdown(line.fd(), SHUT_WR);
  }
}

class TcpTransport final : public Transport {
 public:
  TcpTransport(Mesh mesh, TcpOptions options, Fd wake, Fd stop)
      : mesh_(std::move(mesh)),
        options_(std::move(options)),
        wake_(std::move(wake)),
        stop_(std::move(stop)),
        left_(static_cast<size_t>(mesh_.size), false),
        inbox_(static_cast<size_t>(mesh_.size)) {
    // The data connections keep the longer time limit, because the kernel also ends a connection if
    // its receiver reads nothing during this time.
    for (const SealedSocket& line : mesh_.control) Tune(line.fd(), options_.host_timeout);
    for (const SealedSocket& line : mesh_.data) Tune(line.fd(), Duration::zero());
    if (mesh_.size > 1) listener_ = std::thread([this] { Listen(); });
  }
  ~TcpTransport() override {
    const Status failure = Health();
    if (failure.ok()) Tell(ControlMessage::kGoodbye, failure);
    // Sends the failure to peers that do not know it. Without this message they would report this
    // rank as lost.
    if (!failure.ok() && !told_) Tell(ControlMessage::kRelay, failure);
    Ring(stop_);
    if (listener_.joinable()) listener_.join();
  }

  int rank() const override { return mesh_.rank; }
  int size() const override { return mesh_.size; }
  std::string PeerName(int peer) const override {
    return absl::StrFormat("rank %d (%s)", peer, mesh_.hosts[static_cast<size_t>(peer)]);
  }

  StatusOr<size_t> TrySend(int peer, std::span<const std::byte> head,
                           std::span<const std::byte> body) override;
  StatusOr<size_t> TryRecv(int peer, std::span<std::byte> head, std::span<std::byte> body) override;
  Status Wait(int send_to, std::span<const int> recv_from, Time deadline) override;
  void Abort(const Status& status) override {
    if (!Fail(status)) return;
    told_ = true;
    Tell(ControlMessage::kAbort, status);
  }
  Status Health() const override TD_EXCLUDES(mu_) {
    if (!failed_.load(std::memory_order_acquire)) return OkStatus();
    MutexLock lock(mu_);
    return OwnCopy(failure_);
  }

 private:
  struct Inbox {
    ControlMessage message;
    size_t got = 0;
    bool open = true;
  };

  // Sets the time after which the kernel ends the connection; zero: kUserTimeout.
  static void Tune(int fd, Duration host_timeout);
  static void Ring(const Fd& event) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(event.get(), &one, sizeof(one));
  }
  int DataFd(int peer) const { return mesh_.data[static_cast<size_t>(peer)].fd(); }

  // Records a failure. Returns true only for the first failure; later failures are ignored.
  bool Fail(const Status& status) TD_EXCLUDES(mu_);
  // Calls TellPeers.
  void Tell(uint16_t kind, const Status& status) TD_EXCLUDES(tell_mu_);
  StatusOr<size_t> Result(int peer, const SealedSocket::Moved& moved);
  // Returns the failure of this rank, or an error with the reason for which the data connection of
  // `peer` ended. `error` is an errno; 0 means an orderly close.
  Status Gone(int peer, int error) TD_EXCLUDES(mu_);

  // These functions read the control connections. They run on the transport's thread.
  void Listen();
  void ReadControl(int peer);
  void Obey(int peer, const ControlMessage& message);

  Mesh mesh_;
  const TcpOptions options_;
  const Fd wake_;  // becomes readable at the first failure
  const Fd stop_;

  std::atomic<bool> failed_{false};
  std::atomic<bool> told_{false};  // true: this rank detected the failure and notified the peers
  mutable Mutex mu_;
  CondVar changed_;
  Status failure_ TD_GUARDED_BY(mu_);
  std::vector<bool> left_ TD_GUARDED_BY(mu_);  // for each rank, whether it has sent a goodbye

  Mutex tell_mu_;  // serializes the messages that are sent on control connections

  std::vector<Inbox> inbox_;  // used by the listener thread only
  std::thread listener_;
};

void TcpTransport::Tune(int fd, Duration host_timeout) {
  if (fd < 0) return;
  const auto set = [fd](int option, int value) {
    if (::setsockopt(fd, IPPROTO_TCP, option, &value, sizeof(value)) != 0) {
      LOG(WARNING) << "cannot set TCP option " << option << ": " << ErrnoText(errno);
    }
  };
  const bool given = host_timeout > Duration::zero();
  const auto seconds = static_cast<int>(Millis(host_timeout) / 1000);
  set(TCP_USER_TIMEOUT, static_cast<int>(Millis(given ? host_timeout : kUserTimeout)));
  // The kernel ends the connection with the first probe after TCP_USER_TIMEOUT.
  set(TCP_KEEPIDLE, given ? std::clamp(seconds / 2, 1, kKeepIdleS) : kKeepIdleS);
  set(TCP_KEEPINTVL, given ? 1 : kKeepIntervalS);
  set(TCP_KEEPCNT, kKeepCount);
}

bool TcpTransport::Fail(const Status& status) {
  {
    MutexLock lock(mu_);
    if (!failure_.ok()) return false;
    failure_ = OwnCopy(status);
    failed_.store(true, std::memory_order_release);
    changed_.NotifyAll();
  }
  Ring(wake_);
  return true;
}

void TcpTransport::Tell(uint16_t kind, const Status& status) {
  MutexLock lock(tell_mu_);
  TellPeers(mesh_, kind, status);
}

Status TcpTransport::Gone(int peer, int error) {
  const Time deadline = SteadyNow() + kReasonWait;
  MutexLock lock(mu_);
  while (failure_.ok() && !left_[static_cast<size_t>(peer)]) {
    if (!changed_.WaitUntil(mu_, deadline)) break;
  }
  if (!failure_.ok()) return OwnCopy(failure_);
  if (left_[static_cast<size_t>(peer)]) {
    return Unavailable("%s has closed its communicator [TD3005]; hint: read the log of this peer",
                       PeerName(peer));
  }
  return Unavailable("%s is lost: %s [TD3005]; hint: look at its log", PeerName(peer),
                     error == 0 ? "the peer closed the connection" : ErrnoText(error));
}

StatusOr<size_t> TcpTransport::Result(int peer, const SealedSocket::Moved& moved) {
  switch (moved.end) {
    case SealedSocket::Moved::End::kOpen:
      break;
    case SealedSocket::Moved::End::kClosed:
      return Gone(peer, 0);
    case SealedSocket::Moved::End::kBroken:
      return Gone(peer, moved.error);
    case SealedSocket::Moved::End::kForged:
      return DataLoss("the connection to %s failed: %s", PeerName(peer), kForgedText);
  }
  return moved.bytes;
}

StatusOr<size_t> TcpTransport::TrySend(int peer, std::span<const std::byte> head,
                                       std::span<const std::byte> body) {
  TD_RETURN_IF_ERROR(Health());
  return Result(peer, mesh_.data[static_cast<size_t>(peer)].TrySend(head, body));
}

StatusOr<size_t> TcpTransport::TryRecv(int peer, std::span<std::byte> head,
                                       std::span<std::byte> body) {
  TD_RETURN_IF_ERROR(Health());
  return Result(peer, mesh_.data[static_cast<size_t>(peer)].TryRecv(head, body));
}

Status TcpTransport::Wait(int send_to, std::span<const int> recv_from, Time deadline) {
  std::array<pollfd, 4> fds;
  CHECK_LE(recv_from.size() + 2, fds.size());
  for (const int from : recv_from) {
    if (mesh_.data[static_cast<size_t>(from)].holds_record()) return Health();
  }
  nfds_t n = 0;
  fds[n++] = {wake_.get(), POLLIN, 0};
  for (const int from : recv_from) fds[n++] = {DataFd(from), POLLIN, 0};
  if (send_to >= 0 && !recv_from.empty() && send_to == recv_from.back()) {
    fds[n - 1].events |= POLLOUT;
  } else if (send_to >= 0) {
    fds[n++] = {DataFd(send_to), POLLOUT, 0};
  }
  const Time spin_until = SteadyNow() + options_.spin;
  while (true) {
    const Time now = SteadyNow();
    const bool spinning = now < spin_until && now < deadline;
    const Duration left = std::min<Duration>(deadline - now, std::chrono::hours(1));
    timespec wait = {0, 0};
    if (!spinning && left > Duration::zero()) {
      wait = {left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    }
    const int ready = ::ppoll(fds.data(), n, &wait, nullptr);
    if (ready < 0 && errno != EINTR)
      return Internal("cannot wait for the sockets of other ranks: %s", ErrnoText(errno));
    TD_RETURN_IF_ERROR(Health());
    if (ready > 0) return OkStatus();
    if (spinning) {
      ::sched_yield();  // with more ranks than cores, the peer may need this core
    } else if (SteadyNow() >= deadline) {
      break;
    }
  }
  if (recv_from.empty()) {
    return DeadlineExceeded(
        "the send to %s timed out, because this peer receives no data [TD3006]; hint: find the "
        "slowest rank with tandem status LOG_DIR",
        PeerName(send_to));
  }
  return DeadlineExceeded(
      "the receive from %s timed out, because this peer sends no data [TD3006]; hint: find the "
      "slowest rank with tandem status LOG_DIR",
      PeerName(recv_from[0]));
}

void TcpTransport::Listen() {
  SetThreadName("comm-control");
  inbox_[static_cast<size_t>(mesh_.rank)].open = false;
  std::vector<pollfd> fds(static_cast<size_t>(mesh_.size) + 1);
  // A message may have arrived together with the last bytes of the handshake.
  for (size_t r = 0; r + 1 < fds.size(); ++r) {
    if (inbox_[r].open && mesh_.control[r].holds_record()) ReadControl(static_cast<int>(r));
  }
  while (true) {
    for (size_t r = 0; r + 1 < fds.size(); ++r) {
      fds[r] = {inbox_[r].open ? mesh_.control[r].fd() : -1, POLLIN, 0};
    }
    fds.back() = {stop_.get(), POLLIN, 0};
    // Without a check, waits without a deadline. The destructor ends the wait through stop_.
    const int ready = ::poll(fds.data(), fds.size(), options_.check ? kCheckMs : -1);
    if (ready < 0) {
      CHECK_EQ(errno, EINTR) << ErrnoText(errno);
      continue;
    }
    if (fds.back().revents != 0) return;
    for (size_t r = 0; r + 1 < fds.size(); ++r) {
      if (fds[r].revents != 0) ReadControl(static_cast<int>(r));
    }
    if (!options_.check || failed_.load()) continue;
    if (const Status status = options_.check(); !status.ok()) Abort(status);
  }
}

void TcpTransport::ReadControl(int peer) {
  Inbox& inbox = inbox_[static_cast<size_t>(peer)];
  SealedSocket& line = mesh_.control[static_cast<size_t>(peer)];
  const auto rest = std::as_writable_bytes(std::span(&inbox.message, 1)).subspan(inbox.got);
  const SealedSocket::Moved moved = line.TryRecv(rest, {});
  if (moved.bytes > 0) {
    inbox.got += moved.bytes;
    if (inbox.got < sizeof(ControlMessage)) return;
    inbox.got = 0;
    Obey(peer, inbox.message);
    if (inbox.open && line.holds_record()) ReadControl(peer);
    return;
  }
  if (moved.end == SealedSocket::Moved::End::kOpen) return;
  inbox.open = false;
  {
    MutexLock lock(mu_);
    if (left_[static_cast<size_t>(peer)]) return;
  }
  LOG_EVERY_T(INFO, 1.0) << PeerName(peer) << " is lost: its connection ended";
  if (moved.end == SealedSocket::Moved::End::kForged) return Abort(Result(peer, moved).status());
  Abort(Unavailable(
      "%s is lost: its connection closed unexpectedly (%s) [TD3005]; hint: look at its log",
      PeerName(peer), moved.error == 0 ? "no system error" : ErrnoText(moved.error)));
}

void TcpTransport::Obey(int peer, const ControlMessage& message) {
  if (message.magic == ControlMessage::kMagic && message.kind == ControlMessage::kGoodbye) {
    MutexLock lock(mu_);
    left_[static_cast<size_t>(peer)] = true;
    changed_.NotifyAll();
    return;
  }
  const bool relayed = message.kind == ControlMessage::kRelay;
  if (message.magic == ControlMessage::kMagic &&
      (relayed || message.kind == ControlMessage::kAbort)) {
    const bool known =
        message.code > 0 && message.code <= static_cast<uint16_t>(StatusCode::kUnauthenticated);
    const std::string text = GetText(message.text);
    // The message is not forwarded, because the rank that aborts notifies all ranks itself.
    Fail(Status(known ? static_cast<StatusCode>(message.code) : StatusCode::kUnknown,
                relayed ? text : absl::StrFormat("%s aborted: %s", PeerName(peer), text)));
    return;
  }
  inbox_[static_cast<size_t>(peer)].open = false;
  Abort(DataLoss("%s sent invalid data on its control connection", PeerName(peer)));
}

}  // namespace

StatusOr<std::unique_ptr<Transport>> MakeTcpTransport(Mesh mesh, TcpOptions options) {
  Fd events[2];
  for (Fd& event : events) {
    event.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (event.valid()) continue;
    const Status failure = SystemError("cannot create an event descriptor", errno);
    // Without this message the peers would report this rank as lost, without the cause.
    TellPeers(mesh, ControlMessage::kAbort, failure);
    return failure;
  }
  return std::unique_ptr<Transport>(std::make_unique<TcpTransport>(
      std::move(mesh), std::move(options), std::move(events[0]), std::move(events[1])));
}

}  // namespace tandem::collective
