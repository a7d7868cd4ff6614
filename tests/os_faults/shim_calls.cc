// The functions that the library replaces. Each asks FateOf, and then calls the next function of
// this name.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "tests/os_faults/shim.h"

using tandem::os_faults::Call;
using tandem::os_faults::DropUnsynced;
using tandem::os_faults::Fate;
using tandem::os_faults::FateOf;
using tandem::os_faults::FateOfFile;
using tandem::os_faults::NoteDurable;

namespace {

template <typename Function>
Function Next(Function, const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

// The next function of a name, which is looked up once.
#define NEXT(name)                                 \
  ([] {                                            \
    static const auto next = Next(&::name, #name); \
    return next;                                   \
  }())

// Returns from the enclosing function if the call shall fail.
#define FAIL_IF_DUE(fate, result)             \
  do {                                        \
    const Fate due = (fate);                  \
    if (due.fails || due.is_short) {          \
      errno = due.is_short ? EIO : due.error; \
      return result;                          \
    }                                         \
  } while (false)

// Bytes that a call transfers. A short call transfers half of them, and one at least.
size_t Part(const Fate& fate, size_t bytes) {
  return fate.is_short ? std::max<size_t>(bytes / 2, std::min<size_t>(bytes, 1)) : bytes;
}

mode_t ModeOf(int flags, va_list* arguments) {
  const bool has = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return has ? static_cast<mode_t>(va_arg(*arguments, int)) : 0;
}

constexpr size_t kLargeMemory = 256 << 10;  // only larger pieces of memory count, in bytes

}  // namespace

#define EXPORT __attribute__((visibility("default")))

extern "C" {

// ---- Files by name ------------------------------------------------------------------------------

EXPORT int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, &arguments);
  va_end(arguments);
  FAIL_IF_DUE(FateOf(Call::kOpen, path), -1);
  const int fd = NEXT(open)(path, flags, mode);
  if (fd >= 0 && (flags & O_ACCMODE) != O_RDONLY) NoteDurable(fd);
  return fd;
}

EXPORT int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, &arguments);
  va_end(arguments);
  FAIL_IF_DUE(FateOf(Call::kOpen, path), -1);
  const int fd = NEXT(open)(path, flags, mode);
  if (fd >= 0 && (flags & O_ACCMODE) != O_RDONLY) NoteDurable(fd);
  return fd;
}

EXPORT int openat(int dir, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = ModeOf(flags, &arguments);
  va_end(arguments);
  FAIL_IF_DUE(FateOf(Call::kOpen, path), -1);
  return NEXT(openat)(dir, path, flags, mode);
}

EXPORT FILE* fopen(const char* path, const char* mode) {
  FAIL_IF_DUE(FateOf(Call::kOpen, path), nullptr);
  return NEXT(fopen)(path, mode);
}

EXPORT FILE* fopen64(const char* path, const char* mode) {
  FAIL_IF_DUE(FateOf(Call::kOpen, path), nullptr);
  return NEXT(fopen)(path, mode);
}

EXPORT DIR* opendir(const char* path) {
  FAIL_IF_DUE(FateOf(Call::kOpendir, path), nullptr);
  return NEXT(opendir)(path);
}

EXPORT dirent* readdir(DIR* dir) {
  FAIL_IF_DUE(FateOfFile(Call::kReaddir, dirfd(dir)), nullptr);
  return NEXT(readdir)(dir);
}

EXPORT int mkdir(const char* path, mode_t mode) {
  FAIL_IF_DUE(FateOf(Call::kMkdir, path), -1);
  return NEXT(mkdir)(path, mode);
}

EXPORT int rename(const char* from, const char* to) {
  FAIL_IF_DUE(FateOf(Call::kRename, to), -1);
  return NEXT(rename)(from, to);
}

EXPORT int link(const char* from, const char* to) {
  FAIL_IF_DUE(FateOf(Call::kLink, to), -1);
  return NEXT(link)(from, to);
}

EXPORT int unlink(const char* path) {
  FAIL_IF_DUE(FateOf(Call::kUnlink, path), -1);
  return NEXT(unlink)(path);
}

EXPORT int unlinkat(int dir, const char* path, int flags) {
  FAIL_IF_DUE(FateOf(Call::kUnlink, path), -1);
  return NEXT(unlinkat)(dir, path, flags);
}

EXPORT int rmdir(const char* path) {
  FAIL_IF_DUE(FateOf(Call::kUnlink, path), -1);
  return NEXT(rmdir)(path);
}

// ---- Open files ---------------------------------------------------------------------------------

EXPORT int ftruncate(int fd, off_t length) noexcept {
  FAIL_IF_DUE(FateOfFile(Call::kFtruncate, fd), -1);
  return NEXT(ftruncate)(fd, length);
}

EXPORT int fallocate(int fd, int mode, off_t offset, off_t length) {
  FAIL_IF_DUE(FateOfFile(Call::kFallocate, fd), -1);
  return NEXT(fallocate)(fd, mode, offset, length);
}

EXPORT int posix_fallocate(int fd, off_t offset, off_t length) {
  const Fate fate = FateOfFile(Call::kFallocate, fd);
  return fate.fails ? fate.error : NEXT(posix_fallocate)(fd, offset, length);
}

EXPORT ssize_t write(int fd, const void* data, size_t bytes) {
  const Fate fate = FateOfFile(Call::kWrite, fd);
  if (fate.fails) errno = fate.error;
  return fate.fails ? -1 : NEXT(write)(fd, data, Part(fate, bytes));
}

EXPORT ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  const Fate fate = FateOfFile(Call::kWrite, fd);
  if (fate.fails) errno = fate.error;
  return fate.fails ? -1 : NEXT(pwrite)(fd, data, Part(fate, bytes), offset);
}

EXPORT ssize_t writev(int fd, const iovec* parts, int count) {
  const Fate fate = FateOfFile(Call::kWrite, fd);
  if (fate.fails) errno = fate.error;
  if (fate.fails) return -1;
  if (fate.is_short) return NEXT(write)(fd, parts->iov_base, Part(fate, parts->iov_len));
  return NEXT(writev)(fd, parts, count);
}

EXPORT ssize_t read(int fd, void* data, size_t bytes) {
  const Fate fate = FateOfFile(Call::kRead, fd);
  if (fate.fails) errno = fate.error;
  return fate.fails ? -1 : NEXT(read)(fd, data, Part(fate, bytes));
}

EXPORT ssize_t pread(int fd, void* data, size_t bytes, off_t offset) {
  const Fate fate = FateOfFile(Call::kRead, fd);
  if (fate.fails) errno = fate.error;
  return fate.fails ? -1 : NEXT(pread)(fd, data, Part(fate, bytes), offset);
}

EXPORT size_t fread(void* data, size_t size, size_t count, FILE* file) {
  const Fate fate = FateOfFile(Call::kRead, fileno(file));
  if (!fate.fails) return NEXT(fread)(data, size, count, file);
  file->_flags |= 0x20;  // glibc's _IO_ERR_SEEN, which ferror returns
  errno = fate.error;
  return 0;
}

EXPORT size_t fread_unlocked(void* data, size_t size, size_t count, FILE* file) {
  const Fate fate = FateOfFile(Call::kRead, fileno(file));
  if (!fate.fails) return NEXT(fread_unlocked)(data, size, count, file);
  file->_flags |= 0x20;  // see fread
  errno = fate.error;
  return 0;
}

EXPORT int fsync(int fd) {
  const Fate fate = FateOfFile(Call::kFsync, fd);
  if (fate.fails) DropUnsynced(fd);
  if (fate.fails) errno = fate.error;
  if (fate.fails) return -1;
  const int result = NEXT(fsync)(fd);
  if (result == 0) NoteDurable(fd);
  return result;
}

EXPORT int fdatasync(int fd) {
  const Fate fate = FateOfFile(Call::kFsync, fd);
  if (fate.fails) DropUnsynced(fd);
  if (fate.fails) errno = fate.error;
  if (fate.fails) return -1;
  const int result = NEXT(fdatasync)(fd);
  if (result == 0) NoteDurable(fd);
  return result;
}

EXPORT int close(int fd) {
  const Fate fate = FateOfFile(Call::kClose, fd);
  const int result = NEXT(close)(fd);
  if (fate.fails) errno = fate.error;
  return fate.fails ? -1 : result;
}

// ---- Memory -------------------------------------------------------------------------------------

EXPORT void* mmap(void* at, size_t bytes, int protection, int flags, int fd,
                  off_t offset) noexcept {
  const bool anonymous = (flags & MAP_ANONYMOUS) != 0;
  const Fate fate = anonymous ? FateOf(Call::kMmap, nullptr) : FateOfFile(Call::kMmap, fd);
  if (fate.fails) errno = fate.error;
  return fate.fails ? MAP_FAILED : NEXT(mmap)(at, bytes, protection, flags, fd, offset);
}

EXPORT int memfd_create(const char* name, unsigned flags) noexcept {
  FAIL_IF_DUE(FateOf(Call::kMemfdCreate, nullptr), -1);
  return NEXT(memfd_create)(name, flags);
}

EXPORT int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  if (bytes >= kLargeMemory && FateOf(Call::kMalloc, nullptr).fails) return ENOMEM;
  return NEXT(posix_memalign)(memory, alignment, bytes);
}

EXPORT void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  if (bytes >= kLargeMemory) FAIL_IF_DUE(FateOf(Call::kMalloc, nullptr), nullptr);
  return NEXT(aligned_alloc)(alignment, bytes);
}

// ---- Sockets ------------------------------------------------------------------------------------

EXPORT int socket(int domain, int type, int protocol) noexcept {
  FAIL_IF_DUE(FateOf(Call::kSocket, nullptr), -1);
  return NEXT(socket)(domain, type, protocol);
}

EXPORT int socketpair(int domain, int type, int protocol, int fds[2]) noexcept {
  FAIL_IF_DUE(FateOf(Call::kSocketpair, nullptr), -1);
  return NEXT(socketpair)(domain, type, protocol, fds);
}

EXPORT int bind(int fd, const sockaddr* address, socklen_t length) noexcept {
  FAIL_IF_DUE(FateOf(Call::kBind, nullptr), -1);
  return NEXT(bind)(fd, address, length);
}

EXPORT int listen(int fd, int backlog) noexcept {
  FAIL_IF_DUE(FateOf(Call::kListen, nullptr), -1);
  return NEXT(listen)(fd, backlog);
}

// Only calls that accept a connection count.
EXPORT int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  const int accepted = NEXT(accept4)(fd, address, length, flags);
  if (accepted < 0) return accepted;
  const Fate fate = FateOf(Call::kAccept, nullptr);
  if (!fate.fails) return accepted;
  NEXT(close)(accepted);
  errno = fate.error;
  return -1;
}

EXPORT int accept(int fd, sockaddr* address, socklen_t* length) {
  return accept4(fd, address, length, 0);
}

EXPORT int connect(int fd, const sockaddr* address, socklen_t length) {
  FAIL_IF_DUE(FateOf(Call::kConnect, nullptr), -1);
  return NEXT(connect)(fd, address, length);
}

EXPORT ssize_t send(int fd, const void* data, size_t bytes, int flags) {
  const Fate fate = FateOf(Call::kSend, nullptr);
  if (fate.fails) errno = fate.error;
  return fate.fails ? -1 : NEXT(send)(fd, data, Part(fate, bytes), flags);
}

EXPORT ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  FAIL_IF_DUE(FateOf(Call::kSend, nullptr), -1);
  return NEXT(sendmsg)(fd, message, flags);
}

EXPORT ssize_t recv(int fd, void* data, size_t bytes, int flags) {
  const Fate fate = FateOf(Call::kRecv, nullptr);
  if (fate.fails) errno = fate.error;
  return fate.fails ? -1 : NEXT(recv)(fd, data, Part(fate, bytes), flags);
}

EXPORT ssize_t recvmsg(int fd, msghdr* message, int flags) {
  FAIL_IF_DUE(FateOf(Call::kRecv, nullptr), -1);
  return NEXT(recvmsg)(fd, message, flags);
}

// ---- Other descriptors --------------------------------------------------------------------------

EXPORT int epoll_create1(int flags) noexcept {
  FAIL_IF_DUE(FateOf(Call::kEpollCreate, nullptr), -1);
  return NEXT(epoll_create1)(flags);
}

EXPORT int epoll_ctl(int epoll, int what, int fd, epoll_event* event) noexcept {
  if (what == EPOLL_CTL_ADD) FAIL_IF_DUE(FateOf(Call::kEpollCtl, nullptr), -1);
  return NEXT(epoll_ctl)(epoll, what, fd, event);
}

EXPORT int eventfd(unsigned count, int flags) noexcept {
  FAIL_IF_DUE(FateOf(Call::kEventfd, nullptr), -1);
  return NEXT(eventfd)(count, flags);
}

EXPORT int timerfd_create(clockid_t clock, int flags) noexcept {
  FAIL_IF_DUE(FateOf(Call::kTimerfd, nullptr), -1);
  return NEXT(timerfd_create)(clock, flags);
}

EXPORT int signalfd(int fd, const sigset_t* set, int flags) noexcept {
  FAIL_IF_DUE(FateOf(Call::kSignalfd, nullptr), -1);
  return NEXT(signalfd)(fd, set, flags);
}

EXPORT int pipe2(int fds[2], int flags) noexcept {
  FAIL_IF_DUE(FateOf(Call::kPipe, nullptr), -1);
  return NEXT(pipe2)(fds, flags);
}

EXPORT int pipe(int fds[2]) noexcept { return pipe2(fds, 0); }

EXPORT int dup(int fd) noexcept {
  FAIL_IF_DUE(FateOf(Call::kDup, nullptr), -1);
  return NEXT(dup)(fd);
}

EXPORT int dup2(int fd, int other) noexcept {
  FAIL_IF_DUE(FateOf(Call::kDup, nullptr), -1);
  return NEXT(dup2)(fd, other);
}

EXPORT int mkfifo(const char* path, mode_t mode) noexcept {
  FAIL_IF_DUE(FateOf(Call::kMkdir, path), -1);
  return NEXT(mkfifo)(path, mode);
}

// ---- Processes and threads ----------------------------------------------------------------------

EXPORT pid_t fork() noexcept {
  FAIL_IF_DUE(FateOf(Call::kFork, nullptr), -1);
  return NEXT(fork)();
}

EXPORT int execve(const char* path, char* const arguments[], char* const environment[]) noexcept {
  FAIL_IF_DUE(FateOf(Call::kExec, nullptr), -1);
  return NEXT(execve)(path, arguments, environment);
}

EXPORT int execv(const char* path, char* const arguments[]) noexcept {
  FAIL_IF_DUE(FateOf(Call::kExec, nullptr), -1);
  return NEXT(execv)(path, arguments);
}

EXPORT int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                          void* argument) noexcept {
  const Fate fate = FateOf(Call::kPthreadCreate, nullptr);
  return fate.fails ? fate.error : NEXT(pthread_create)(thread, attributes, run, argument);
}

}  // extern "C"
