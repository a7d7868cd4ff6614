#include "tests/os_faults/shim.h"

#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tandem::os_faults {
namespace {

constexpr size_t kCalls = static_cast<size_t>(Call::kCount);
constexpr uint64_t kLinesMax = 4000;  // lines of one function in the log of a process
constexpr int kFramesMax = 40;
constexpr size_t kSitesMax = 4;  // frames of the program in a line

constexpr std::array<const char*, kCalls> kNames = {
    "open",      "opendir",   "readdir",        "mkdir",    "rename",     "link",
    "unlink",    "ftruncate", "fallocate",      "write",    "read",       "fsync",
    "close",     "mmap",      "memfd_create",   "socket",   "socketpair", "bind",
    "listen",    "accept",    "connect",        "send",     "recv",       "epoll_create",
    "epoll_ctl", "eventfd",   "timerfd",        "signalfd", "pipe",       "dup",
    "fork",      "exec",      "pthread_create", "malloc"};

// Counters that a process shares with its children until they execute another program.
struct Counters {
  std::array<std::atomic<uint64_t>, kCalls> calls = {};
  std::atomic<int> marked = 0;  // 1: this process created the mark; -1: another process did
};

const char* Variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

long NumberOf(const char* name, long otherwise) {
  const char* const text = Variable(name);
  return *text == '\0' ? otherwise : std::strtol(text, nullptr, 10);
}

// Index of this process among those of its program.
const char* OwnIndex() {
  for (const char* const name : {"TANDEM_SERVER_INDEX", "RANK"}) {
    if (*Variable(name) != '\0') return Variable(name);
  }
  return "0";
}

size_t CallOfName(const char* name) {
  for (size_t i = 0; i < kCalls; ++i) {
    if (std::strcmp(kNames[i], name) == 0) return i;
  }
  return kCalls;
}

// Configuration of this process. Constant after the constructor.
struct Config {
  Config() {
    const char* const wanted = Variable("TANDEM_FAULT_PROCESS");
    const char* const index = Variable("TANDEM_FAULT_INDEX");
    const bool chosen = std::strcmp(wanted, program_invocation_short_name) == 0 &&
                        (*index == '\0' || std::strcmp(index, OwnIndex()) == 0);
    if (chosen) fails = CallOfName(Variable("TANDEM_FAULT_CALL"));
    void* const memory =
        mmap(nullptr, sizeof(Counters), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    counters = new (memory) Counters();
    // The first call of backtrace loads a library, which is not possible between fork and exec.
    std::array<void*, 2> frames = {};
    backtrace(frames.data(), static_cast<int>(frames.size()));
    dl_iterate_phdr(
        [](dl_phdr_info* info, size_t, void* base) {
          *static_cast<uintptr_t*>(base) = info->dlpi_addr;
          return 1;  // the first object is the program
        },
        &program_base);
  }
  const char* const dir = Variable("TANDEM_FAULT_DIR");
  const char* const log = Variable("TANDEM_FAULT_LOG");
  const char* const mark = Variable("TANDEM_FAULT_MARK");
  const uint64_t at = static_cast<uint64_t>(NumberOf("TANDEM_FAULT_AT", 0));
  const uint64_t times = static_cast<uint64_t>(NumberOf("TANDEM_FAULT_TIMES", 1));
  const int error = static_cast<int>(NumberOf("TANDEM_FAULT_ERRNO", EIO));
  const bool drops = NumberOf("TANDEM_FAULT_DROP", 0) == 1;
  size_t fails = kCalls;  // index of the function that fails; kCalls: none in this process
  uintptr_t program_base = 0;
  Counters* counters = nullptr;
};

// Null until the constructor below has run. Calls before that do not count.
const Config* config = nullptr;

__attribute__((constructor)) void Prepare() {
  static const Config made;
  config = &made;
}

// Writes a line to a file without the functions that this library replaces. Returns false if the
// file cannot be opened.
bool WriteLine(const char* path, int flags, const char* line, size_t bytes) {
  const long fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600);
  if (fd < 0) return false;
  syscall(SYS_write, fd, line, bytes);
  syscall(SYS_close, fd);
  return true;
}

// Appends the addresses of the innermost frames of the program, relative to its base.
size_t AppendSites(char* text, size_t size) {
  std::array<void*, kFramesMax> frames = {};
  const int count = backtrace(frames.data(), kFramesMax);
  size_t used = 0, sites = 0;
  for (int i = 0; i < count && sites < kSitesMax; ++i) {
    const auto address = reinterpret_cast<uintptr_t>(frames[static_cast<size_t>(i)]);
    dl_find_object found = {};
    if (_dl_find_object(frames[static_cast<size_t>(i)], &found) != 0) continue;
    if (found.dlfo_link_map == nullptr || found.dlfo_link_map->l_name[0] != '\0') continue;
    ++sites;
    const int n = std::snprintf(text + used, size - used, " %lx",
                                static_cast<unsigned long>(address - config->program_base - 1));
    if (n < 0 || static_cast<size_t>(n) >= size - used) break;
    used += static_cast<size_t>(n);
  }
  return used;
}

// Formats "PROGRAM INDEX FUNCTION NUMBER PATH ADDRESS ..." with a line end.
size_t FormatLine(char* line, size_t size, size_t call, uint64_t number, const char* path) {
  const char* const index = OwnIndex();
  int n = std::snprintf(line, size, "%s %s %s %lu %s", program_invocation_short_name, index,
                        kNames[call], static_cast<unsigned long>(number),
                        path == nullptr || *path == '\0' ? "-" : path);
  size_t used = n < 0 || static_cast<size_t>(n) >= size / 2 ? size / 2 : static_cast<size_t>(n);
  for (size_t i = 0; i < used; ++i) {
    if (line[i] == '\n' || line[i] == '\0') line[i] = '?';
  }
  used += AppendSites(line + used, size - used - 1);
  line[used++] = '\n';
  return used;
}

// The durable size of a file, by its inode. Only a process with TANDEM_FAULT_DROP has entries.
struct DurableSize {
  std::atomic<uint64_t> inode = 0;  // 0: the entry is free
  std::atomic<uint64_t> bytes = 0;
};
std::array<DurableSize, 1024> durable_sizes;

// Returns the entry of an inode, or null if all entries are in use.
DurableSize* DurableSizeOf(uint64_t inode) {
  for (size_t i = 0; i < durable_sizes.size(); ++i) {
    DurableSize& entry = durable_sizes[(inode + i) % durable_sizes.size()];
    uint64_t expected = 0;
    if (entry.inode.compare_exchange_strong(expected, inode) || expected == inode) return &entry;
  }
  return nullptr;
}

// Returns true if this process may fail calls, and creates the mark.
bool TakeMark(const char* line, size_t bytes) {
  std::atomic<int>& marked = config->counters->marked;
  int known = marked.load();
  if (known == 0) {
    known = WriteLine(config->mark, O_EXCL, line, bytes) ? 1 : -1;
    marked.store(known);
  }
  return known == 1;
}

bool StartsWith(const char* text, const char* prefix) {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

// True for a relative path too, because jobs run in their directory.
bool Counts(const char* path) {
  return path[0] != '/' || StartsWith(path, config->dir) || StartsWith(path, "/memfd:");
}

}  // namespace

Fate FateOf(Call call, const char* path) {
  const int before = errno;
  Fate fate;
  const auto index = static_cast<size_t>(call);
  if (config == nullptr || (path != nullptr && !Counts(path))) return fate;
  const uint64_t number = ++config->counters->calls[index];
  const bool logs = *config->log != '\0' && number <= kLinesMax;
  const bool due = index == config->fails && number >= config->at &&
                   (config->times == 0 || number < config->at + config->times);
  if (logs || due) {
    std::array<char, 1024> line;
    const size_t bytes = FormatLine(line.data(), line.size(), index, number, path);
    if (logs) WriteLine(config->log, O_APPEND, line.data(), bytes);
    if (due && TakeMark(line.data(), bytes)) {
      fate = {.fails = config->error != 0, .is_short = config->error == 0, .error = config->error};
    }
  }
  errno = before;
  return fate;
}

Fate FateOfFile(Call call, int fd) {
  if (config == nullptr) return {};
  const bool of_interest = *config->log != '\0' || static_cast<size_t>(call) == config->fails;
  if (!of_interest) return {};
  const int before = errno;
  std::array<char, 64> link;
  std::array<char, 512> path;
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
  const long n = syscall(SYS_readlink, link.data(), path.data(), path.size() - 1);
  errno = before;
  if (n <= 0 || path[0] != '/') return {};  // a socket or a pipe
  path[static_cast<size_t>(n)] = '\0';
  return FateOf(call, path.data());
}

void NoteDurable(int fd) {
  struct stat info {};
  if (config == nullptr || !config->drops || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
    return;
  DurableSize* const entry = DurableSizeOf(info.st_ino);
  if (entry != nullptr) entry->bytes = static_cast<uint64_t>(info.st_size);
}

void DropUnsynced(int fd) {
  struct stat info {};
  if (config == nullptr || !config->drops || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode))
    return;
  const DurableSize* const entry = DurableSizeOf(info.st_ino);
  if (entry != nullptr) syscall(SYS_ftruncate, fd, entry->bytes.load());
}

}  // namespace tandem::os_faults
