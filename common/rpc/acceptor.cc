#include "common/rpc/acceptor.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "common/base/check.h"
#include "common/os/host_limits.h"
#include "common/rpc/hello.h"
#include "common/rpc/listen.h"
#include "common/threads/runner.h"

namespace tandem::rpc {
namespace {

constexpr Duration kRound = std::chrono::milliseconds(50);
constexpr Duration kIdleRound = std::chrono::seconds(1);
constexpr Duration kPause = std::chrono::milliseconds(200);
constexpr int kAcceptsARound = 64;
constexpr uint32_t kGone = EPOLLRDHUP | EPOLLHUP | EPOLLERR;
// TCP_USER_TIMEOUT in ms: a connection ends if sent bytes are not acknowledged within this time.
// gRPC sets the same value on sockets that it accepts itself.
constexpr unsigned kUserTimeoutMs = 10'000;

// Replies to a caller that uses the wrong protocol with an HTTP/2 SETTINGS frame, as gRPC would, so
// that the caller learns the server's protocol. A server with TLS sends no reply. Reads the unread
// bytes first, because otherwise the kernel would discard the reply.
void Dismiss(int fd, bool tls) {
  std::array<char, 4096> unread;
  (void)recv(fd, unread.data(), unread.size(), MSG_DONTWAIT);
  constexpr char kSettings[] = {0, 0, 0, 4, 0, 0, 0, 0, 0};
  if (!tls) (void)send(fd, kSettings, sizeof(kSettings), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

Acceptor::Acceptor(std::vector<Fd> sockets, std::shared_ptr<Admissions> admissions,
                   AcceptorOptions options)
    : sockets_(std::move(sockets)),
      admissions_(std::move(admissions)),
      options_(std::move(options)),
      accepts_(options_.accepts_burst, options_.accepts_per_second) {}

StatusOr<std::unique_ptr<Acceptor>> Acceptor::Start(std::vector<Fd> sockets,
                                                    std::shared_ptr<Admissions> admissions,
                                                    AcceptorOptions options) {
  std::unique_ptr<Acceptor> acceptor(
      new Acceptor(std::move(sockets), std::move(admissions), std::move(options)));
  TD_RETURN_IF_ERROR(acceptor->Watch());
  acceptor->thread_ = std::thread([a = acceptor.get()] { a->Run(); });
  return acceptor;
}

Status Acceptor::Watch() {
  epoll_.Reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return SystemError("cannot create an epoll set", errno);
  stop_.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_.valid()) return SystemError("cannot create an event descriptor", errno);
  const auto watch = [this](int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  };
  bool all = watch(stop_.get());
  for (const Fd& socket : sockets_) all = all && watch(socket.get());
  return all ? OkStatus() : SystemError("cannot add a socket to the epoll set", errno);
}

Acceptor::~Acceptor() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  CHECK_EQ(write(stop_.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  thread_.join();
  // Another process may hold a copy of a listening socket. shutdown() makes the kernel refuse
  // callers even in this case.
  for (const Fd& socket : sockets_) (void)::shutdown(socket.get(), SHUT_RDWR);
}

bool Acceptor::IsListener(int fd) const {
  return std::any_of(sockets_.begin(), sockets_.end(),
                     [fd](const Fd& socket) { return socket.get() == fd; });
}

void Acceptor::Run() {
  SetThreadName("acceptor");
  std::array<epoll_event, 64> events;
  Time tended;
  while (true) {
    const bool idle = listening_ && waiting_.empty();
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 static_cast<int>(Millis(idle ? kIdleRound : kRound)));
    const Time now = SteadyNow();
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<size_t>(i)].data.fd;
      if (fd == stop_.get()) return;
      if (IsListener(fd)) AcceptSome(fd, now);
      if (!waiting_.contains(fd)) continue;
      if ((events[static_cast<size_t>(i)].events & kGone) != 0) {
        waiting_.erase(fd);  // a closed connection must not take a token of its source
      } else {
        Look(fd, now);
      }
    }
    if (now - tended < kRound) continue;
    tended = now;
    Tend(now);
  }
}

void Acceptor::AcceptSome(int listener, Time now) {
  for (int i = 0; i < kAcceptsARound; ++i) {
    if (!accepts_.Take(now)) return Listen(false);
    Fd fd(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      accepts_.GiveBack();
      if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) return;
      LOG_EVERY_T(WARNING, 1.0)
          << "cannot accept a connection: " << ErrnoText(errno)
          << "; the server closes the oldest connection without an authenticated caller";
      admissions_->EndOldestStranger();
      pause_until_ = now + kPause;
      return Listen(false);
    }
    Welcome(listener, std::move(fd), now);
  }
}

void Acceptor::Welcome(int listener, Fd fd, Time now) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  if (getpeername(fd.get(), name, &length) != 0) return;
  const bool local = address.ss_family == AF_UNIX;
  if (local && !IsOwnPeer(fd.get())) {
    LOG_EVERY_T(WARNING, 1.0) << "rejected a connection of another user on the Unix-domain socket";
    return;
  }
  if (!local) {
    const int on = 1;
    (void)setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUserTimeoutMs,
                     sizeof(kUserTimeoutMs));
  }
  const int key = fd.get();
  auto connection = admissions_->Admit(key, PeerName(name), SourceName(name), now);
  if (connection == nullptr) {
    LOG_EVERY_T(WARNING, 1.0) << "rejected a connection: " << admissions_->limits().connections_max
                              << " are open";
    return;
  }
  if (local) admissions_->Prove(*connection, Standing::kTrusted);
  // The descriptor is edge-triggered, so a caller with an incomplete hello keeps no thread busy.
  epoll_event event{};
  event.events = EPOLLIN | kGone | EPOLLET;
  event.data.fd = key;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, key, &event) != 0) return;
  waiting_.insert_or_assign(key, Waiting{std::move(fd), listener, std::move(connection)});
}

void Acceptor::Look(int fd, Time now) {
  Waiting& waiting = waiting_.at(fd);
  std::array<char, kHelloBytes> bytes;
  const ssize_t got = recv(fd, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const Hello hello =
      got <= 0 ? Hello::kOther : ReadHello({bytes.data(), static_cast<size_t>(got)}, options_.tls);
  if (hello == Hello::kMore) return;
  if (hello == Hello::kOther) {
    if (got > 0) Dismiss(fd, options_.tls);
    waiting_.erase(fd);
    return;
  }
  if (options_.tls && !waiting.greeted &&
      !waiting.connection->LinkTls(ClientRandom({bytes.data(), kHelloBytes}))) {
    waiting_.erase(fd);
    return;
  }
  waiting.greeted = true;
  if (!admissions_->MayBegin(*waiting.connection, now)) return;
  Begin(std::move(waiting_.extract(fd).mapped()));
}

void Acceptor::Begin(Waiting waiting) {
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, waiting.fd.get(), nullptr);
  if (waiting.connection->standing() >= Standing::kReader) accepts_.GiveBack();
  // With TLS, tls_watch.cc checks the decrypted frames instead.
  if (!options_.tls) waiting.connection->WatchFrames();
  options_.hand_over(waiting.listener, std::move(waiting.fd));
}

void Acceptor::Tend(Time now) {
  if (!listening_ && now >= pause_until_) Listen(true);
  std::vector<int> greeted;
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const Waiting& waiting = it->second;
    const bool late =
        !waiting.greeted && now - waiting.connection->since() >= options_.hello_timeout;
    if (late || waiting.connection->ended()) {
      it = waiting_.erase(it);
      continue;
    }
    if (waiting.greeted) greeted.push_back(it->first);
    ++it;
  }
  std::sort(greeted.begin(), greeted.end(), [this](int a, int b) {
    return waiting_.at(a).connection->since() < waiting_.at(b).connection->since();
  });
  // The order alternates between oldest first and newest first. So a caller is not delayed for
  // long, neither by many earlier callers of its address nor by callers that reconnect repeatedly.
  if (newest_first_) std::reverse(greeted.begin(), greeted.end());
  const size_t before = waiting_.size();
  for (const int fd : greeted) Look(fd, now);
  if (waiting_.size() != before) newest_first_ = !newest_first_;
  admissions_->Expire(now);
}

void Acceptor::Listen(bool on) {
  if (listening_ == on) return;
  listening_ = on;
  for (const Fd& socket : sockets_) {
    epoll_event event{};
    if (on) event.events = EPOLLIN;
    event.data.fd = socket.get();
    CHECK_EQ(epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, socket.get(), &event), 0);
  }
}

}  // namespace tandem::rpc
