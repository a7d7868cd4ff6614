#include "common/shm/unix_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "common/base/check.h"
#include "common/base/require.h"

namespace tandem {
namespace {

constexpr size_t kFdsMax = 4;

struct Address {
  explicit Address(const std::string& name) {
    CHECK_LE(name.size(), 100u);
    un.sun_family = AF_UNIX;
    std::memcpy(un.sun_path + 1, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&un); }
  sockaddr_un un = {};
  socklen_t length = 0;
};

// A socket message that can carry `count` file descriptors.
struct FdMessage {
  FdMessage(std::span<std::byte> bytes, size_t count) : part{bytes.data(), bytes.size()} {
    CHECK_LE(count, kFdsMax);
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
  }
  iovec part;
  alignas(cmsghdr) char control[CMSG_SPACE(kFdsMax * sizeof(int))] = {};
  msghdr message = {};
};

Fd NewSocket() { return Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

}  // namespace

StatusOr<Fd> ListenAbstract(const std::string& name, int backlog) {
  TD_REQUIRE(name.size() <= 100 && backlog > 0);
  Fd fd = NewSocket();
  const Address address(name);
  if (!fd.valid() || ::bind(fd.get(), address.get(), address.length) != 0 ||
      ::listen(fd.get(), backlog) != 0) {
    return Unavailable("cannot create a Unix-domain socket: %s", ErrnoText(errno));
  }
  return fd;
}

StatusOr<Fd> ConnectAbstract(const std::string& name) {
  Fd fd = NewSocket();
  const Address address(name);
  if (!fd.valid() || ::connect(fd.get(), address.get(), address.length) != 0) {
    return Unavailable(
        "cannot reach the Unix-domain socket of the peer (%s): the peer is on another host or in "
        "another network namespace",
        ErrnoText(errno));
  }
  return fd;
}

bool IsSameUser(int socket) {
  ucred peer = {};
  socklen_t length = sizeof(peer);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == ::geteuid();
}

Status WaitReady(int fd, short events, Time deadline) {
  while (true) {
    const Duration left = std::max(deadline - SteadyNow(), Duration::zero());
    pollfd one = {fd, events, 0};
    const timespec wait = {left.count() / 1'000'000'000, left.count() % 1'000'000'000};
    const int ready = ::ppoll(&one, 1, &wait, nullptr);
    if (ready > 0) return OkStatus();
    if (ready < 0 && errno != EINTR)
      return Internal("cannot wait for the peer's shared memory: %s", ErrnoText(errno));
    if (ready == 0) return DeadlineExceeded("the peer did not send its shared memory in time");
  }
}

Status SendFds(int socket, std::span<const std::byte> bytes, std::span<const int> fds) {
  TD_REQUIRE(!bytes.empty());
  FdMessage out({const_cast<std::byte*>(bytes.data()), bytes.size()}, fds.size());
  cmsghdr* const head = CMSG_FIRSTHDR(&out.message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(head), fds.data(), fds.size_bytes());
  const ssize_t sent = ::sendmsg(socket, &out.message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(bytes.size())) return OkStatus();
  return Unavailable("cannot send shared memory to the peer: %s", ErrnoText(errno));
}

StatusOr<std::vector<Fd>> ReceiveFds(int socket, std::span<std::byte> bytes, size_t count,
                                     Time deadline) {
  TD_RETURN_IF_ERROR(WaitReady(socket, POLLIN, deadline));
  FdMessage in(bytes, count);
  const ssize_t got = ::recvmsg(socket, &in.message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  std::vector<Fd> fds;
  const cmsghdr* const head = CMSG_FIRSTHDR(&in.message);
  if (got > 0 && head != nullptr && head->cmsg_type == SCM_RIGHTS) {
    for (size_t at = CMSG_LEN(0); at + sizeof(int) <= head->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(head) + (at - CMSG_LEN(0)), sizeof(fd));
      fds.emplace_back(fd);
    }
  }
  if (got == static_cast<ssize_t>(bytes.size()) && fds.size() == count) return fds;
  return Unavailable("the peer sent no shared memory");
}

}  // namespace tandem
