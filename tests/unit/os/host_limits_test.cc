// If a limit of the host is exceeded, the process must end with a message that names the limit.
#include "common/os/host_limits.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "common/os/files.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using ::testing::AllOf;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;
using ::testing::Not;

void Limit(__rlimit_resource_t resource, rlim_t most) {
  rlimit limit{};
  getrlimit(resource, &limit);
  limit.rlim_cur = most;
  setrlimit(resource, &limit);
}

// Throws `thrown` on another thread, where no handler catches it. This ends the process.
void End(const auto& thrown) {
  std::thread([&thrown] { throw thrown; }).join();
}

TEST(HostLimitsDeathTest, MemoryThatRunsOutIsNamed) {
  EXPECT_EXIT(
      {
        NameHostLimits("prog");
        Limit(RLIMIT_AS, 3'000'000'000);
        End(std::bad_alloc());
      },
      ExitedWithCode(kExitIo),
      AllOf(HasSubstr("prog: error: the process is out of memory: "),
            HasSubstr(" bytes of address space are in use, the limit of this process is 3000000000 "
                      "bytes (ulimit -v) [TD2116] (RESOURCE_EXHAUSTED)\nhint: raise the limits"),
            Not(HasSubstr("out of memory: 0 bytes"))));
  EXPECT_EXIT(
      {
        NameHostLimits("prog");
        End(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
      },
      ExitedWithCode(kExitIo), "^prog: error: the system cannot create a thread: ");
}

TEST(HostLimitsDeathTest, AFailedCallOfALibraryIsNamed) {
  EXPECT_EXIT(
      {
        NameHostLimits("prog");
        End(std::runtime_error("epoll: Too many open files"));  // as Boost's exceptions are
      },
      ExitedWithCode(kExitIo),
      "^prog: error: epoll: Too many open files .TD2114. .UNAVAILABLE.\nhint: raise the limit of");
  EXPECT_EXIT(
      {
        NameHostLimits("prog");
        End(std::system_error(std::make_error_code(std::errc::io_error), "x"));
      },
      ExitedWithCode(kExitIo), "^prog: error: x: Input/output error .TD2120.");
}

TEST(HostLimitsDeathTest, OtherExceptionsStayCrashes) {
  EXPECT_EXIT(
      {
        NameHostLimits("prog");
        End(std::logic_error("a mistake"));
      },
      ::testing::KilledBySignal(SIGABRT), "a mistake");
}

TEST(HostLimitsDeathTest, AFileThatIsTooLargeIsNamed) {
  const TempDir dir;
  const std::string path = dir / "file";
  EXPECT_EXIT(
      {
        NameHostLimits("prog");
        Limit(RLIMIT_FSIZE, 1000);
        const Status written = WriteTextFile(path, std::string(2000, 'x'));
        const std::string text = ToString(written) + "\n";
        [[maybe_unused]] const ssize_t n = write(2, text.data(), text.size());
        _exit(ExitCodeOf(written));
      },
      ExitedWithCode(kExitIo),
      HasSubstr("cannot be written (File too large) [TD2115]: a file of this process may have at "
                "most 1000 bytes; hint: raise the limit with ulimit -f unlimited"));
}

TEST(HostLimitsDeathTest, TooManyOpenFilesAreNamed) {
  EXPECT_EXIT(
      {
        Limit(RLIMIT_NOFILE, 20);
        while (open("/dev/null", O_RDONLY) >= 0) {
        }
        const std::string text = ToString(ReadSmallFile("/etc/passwd", 1 << 20).status()) + "\n";
        [[maybe_unused]] const ssize_t n = write(2, text.data(), text.size());
        _exit(0);
      },
      ExitedWithCode(0),
      HasSubstr("/etc/passwd: cannot be opened (Too many open files) [TD2114]: this process may "
                "open only 20 files; hint: raise the limit with ulimit -n NUMBER"));
}

TEST(HostLimitsTest, AFailedCallIsNamed) {
  const Status many = SystemError("cannot create a pipe", EMFILE);
  EXPECT_EQ(many.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(many.message()),
              HasSubstr("cannot create a pipe: Too many open files [TD2114]: this process may"));
  const Status none = SystemError("cannot create a process for x", EAGAIN);
  EXPECT_EQ(none.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(none.message()),
              HasSubstr("cannot create a process for x: Resource temporarily unavailable [TD2116]; "
                        "hint: raise the limits"));
  EXPECT_EQ(SystemError("cannot create a socket", ENOBUFS).message(),
            "cannot create a socket: No buffer space available [TD2120]; hint: check the limits of "
            "this host");
}

}  // namespace
}  // namespace tandem
