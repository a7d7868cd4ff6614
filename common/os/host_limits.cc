#include "common/os/host_limits.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

#include "common/os/fd.h"

namespace tandem {
namespace {

// Variables for the terminate handler, which has no arguments. Only NameHostLimits writes them;
// main calls NameHostLimits once.
const char* program_name = "";
std::terminate_handler default_terminate = nullptr;

uint64_t LimitOf(__rlimit_resource_t resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 0;
  return limit.rlim_cur;
}

// Returns the address space that this process uses, in bytes. 0: /proc cannot be read. Does not
// allocate heap memory.
uint64_t AddressSpaceUsed() {
  const Fd file(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  std::array<char, 64> text{};
  if (!file.valid() || read(file.get(), text.data(), text.size() - 1) <= 0) return 0;
  return std::strtoull(text.data(), nullptr, 10) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Prints the message and ends the process. Creates no Status, because there may be no memory for
// it.
[[noreturn]] void EndFor(const char* what) {
  std::array<char, 64> limit{"none"};
  const uint64_t bytes = LimitOf(RLIMIT_AS);
  if (bytes != 0) std::snprintf(limit.data(), limit.size(), "%" PRIu64 " bytes", bytes);
  std::array<char, 256> said{};
  std::snprintf(said.data(), said.size(),
                "%s: %.0f bytes of address space are in use, the limit of this process is %s "
                "(ulimit -v) [TD2116]",
                what, static_cast<double>(AddressSpaceUsed()), limit.data());
  std::array<char, 640> text{};
  const int size = std::snprintf(
      text.data(), text.size(),
      "%s: error: %s (RESOURCE_EXHAUSTED)\nhint: raise the limits of this process (ulimit -v, "
      "ulimit -u, the container's memory), or use a smaller batch or fewer threads\n",
      program_name, said.data());
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, text.data(), static_cast<size_t>(size));
  _exit(kExitIo);
}

// Returns true if an exception's text names an error of the operating system. Boost's exceptions
// for failed calls are not derived from std::system_error.
bool NamesSystemError(const char* what) {
  constexpr std::array<int, 6> kErrors = {EMFILE, ENFILE, ENOMEM, ENOBUFS, ENOSPC, EAGAIN};
  return std::ranges::any_of(
      kErrors, [what](int error) { return std::strstr(what, strerror(error)) != nullptr; });
}

// Prints the message for a failed call and ends the process.
[[noreturn]] void EndForCall(const char* what) {
  const bool files = std::strstr(what, strerror(EMFILE)) != nullptr;
  std::array<char, 640> text{};
  const int size =
      std::snprintf(text.data(), text.size(), "%s: error: %.400s [%s] (UNAVAILABLE)\nhint: %s\n",
                    program_name, what, files ? "TD2114" : "TD2120",
                    files ? "raise the limit of open files with ulimit -n NUMBER"
                          : "check the limits of this host");
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, text.data(), static_cast<size_t>(size));
  _exit(kExitIo);
}

[[noreturn]] void OnTerminate() {
  if (const std::exception_ptr thrown = std::current_exception(); thrown != nullptr) {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::bad_alloc&) {
      EndFor("the process is out of memory");
    } catch (const std::system_error& error) {
      if (error.code() == std::errc::resource_unavailable_try_again) {
        EndFor("the system cannot create a thread");
      }
      if (error.code() == std::errc::not_enough_memory) EndFor("the process is out of memory");
      EndForCall(error.what());
    } catch (const std::exception& error) {
      if (NamesSystemError(error.what())) EndForCall(error.what());
    } catch (...) {
    }
  }
  default_terminate();
  std::abort();
}

}  // namespace

Status TooManyFiles(const std::string& what) {
  return ResourceExhausted(
      "%s [TD2114]: this process may open only %d files; hint: raise the limit with ulimit -n "
      "NUMBER",
      what, LimitOf(RLIMIT_NOFILE));
}

Status FileTooLarge(const std::string& what) {
  return ResourceExhausted(
      "%s [TD2115]: a file of this process may have at most %d bytes; hint: raise the limit with "
      "ulimit -f unlimited",
      what, LimitOf(RLIMIT_FSIZE));
}

Status SystemError(const std::string& what, int error) {
  const std::string text = absl::StrFormat("%s: %s", what, ErrnoText(error));
  if (error == EMFILE || error == ENFILE) return TooManyFiles(text);
  if (error == EAGAIN || error == ENOMEM) {
    return ResourceExhausted(
        "%s [TD2116]; hint: raise the limits of this process (ulimit -u, ulimit -v, the "
        "container's memory)",
        text);
  }
  return Unavailable("%s [TD2120]; hint: check the limits of this host", text);
}

std::string LowLimits() {
  constexpr uint64_t kFewFiles = 64;  // minimum limit of open files; gRPC alone needs about 20
  const uint64_t bytes = LimitOf(RLIMIT_AS), files = LimitOf(RLIMIT_NOFILE);
  const std::string memory = bytes == 0 ? "" : absl::StrFormat("ulimit -v allows %d bytes", bytes);
  if (files == 0 || files >= kFewFiles) return memory;
  return absl::StrFormat("%s%sulimit -n allows %d files", memory, memory.empty() ? "" : ", ",
                         files);
}

void NameHostLimits(const char* program) {
  program_name = program;
  signal(SIGXFSZ, SIG_IGN);
  default_terminate = std::set_terminate(OnTerminate);
}

}  // namespace tandem
