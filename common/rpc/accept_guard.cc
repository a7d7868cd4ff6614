#include "common/rpc/accept_guard.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "common/base/mutex.h"

namespace tandem {
namespace {

// The only state of the process as a whole: descriptors belong to the process, and accept4() is
// called by gRPC, which hands no context.
struct Guard {
  Mutex mu;
  int reserve TD_GUARDED_BY(mu) = -1;
  std::atomic<uint64_t> dropped{0};
};

Guard& TheGuard() {
  static Guard guard;
  return guard;
}

void Refill(Guard& guard) TD_REQUIRES(guard.mu) {
  if (guard.reserve < 0) guard.reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int RealAccept(int fd, sockaddr* address, socklen_t* length, int flags) {
  return static_cast<int>(syscall(SYS_accept4, fd, address, length, flags));
}

}  // namespace

void InstallAcceptGuard() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
  }
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
    if (guard.reserve >= 0) close(guard.reserve);
    guard.reserve = -1;
    const int excess = tandem::RealAccept(fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    const int error = errno;
    if (excess >= 0) {
      close(excess);
      guard.dropped.fetch_add(1);
    }
    tandem::Refill(guard);
    if (excess < 0) {
      errno = error == EMFILE || error == ENFILE ? EAGAIN : error;
      return -1;
    }
  }
}
