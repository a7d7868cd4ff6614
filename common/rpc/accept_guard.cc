#include "common/rpc/accept_guard.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "common/base/file_limit.h"
#include "common/base/mutex.h"

namespace tandem {
namespace {

// The only state of the process as a whole: descriptors belong to the process, and accept4() is
// called by gRPC, which hands no context.
struct Guard {
  Mutex mu;
  // More than one: a descriptor given back may be taken by another thread before it serves here.
  std::array<int, 16> reserve TD_GUARDED_BY(mu) = {};
  size_t held TD_GUARDED_BY(mu) = 0;
  std::atomic<uint64_t> dropped{0};
};

Guard& TheGuard() {
  static Guard guard;
  return guard;
}

void Refill(Guard& guard) TD_REQUIRES(guard.mu) {
  while (guard.held < guard.reserve.size()) {
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    guard.reserve[guard.held++] = fd;
  }
}

int RealAccept(int fd, sockaddr* address, socklen_t* length, int flags) {
  return static_cast<int>(syscall(SYS_accept4, fd, address, length, flags));
}

// Accepts one connection for which there is no descriptor, and closes it. False with errno when
// none waits or the whole reserve was taken by others.
bool DropOne(Guard& guard, int fd) TD_REQUIRES(guard.mu) {
  while (guard.held > 0) {
    close(guard.reserve[--guard.held]);
    const int excess = RealAccept(fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (excess >= 0) {
      close(excess);
      guard.dropped.fetch_add(1);
      return true;
    }
    if (errno != EMFILE && errno != ENFILE) return false;
  }
  errno = EAGAIN;
  return false;
}

}  // namespace

void InstallAcceptGuard() {
  RaiseFileLimit();
  Guard& guard = TheGuard();
  MutexLock lock(guard.mu);
  Refill(guard);
}

uint64_t ConnectionsDropped() { return TheGuard().dropped.load(); }

}  // namespace tandem

// Same contract as accept4(2), but out of descriptors means EAGAIN after the queue was emptied:
// gRPC listens with edge-triggered epoll and hears of the next connection only when none is left.
extern "C" int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  tandem::Guard& guard = tandem::TheGuard();
  while (true) {
    const int accepted = tandem::RealAccept(fd, address, length, flags);
    if (accepted >= 0 || (errno != EMFILE && errno != ENFILE)) return accepted;
    tandem::MutexLock lock(guard.mu);
    const bool dropped = tandem::DropOne(guard, fd);
    const int error = errno;
    tandem::Refill(guard);
    if (!dropped) {
      errno = error;
      return -1;
    }
  }
}
