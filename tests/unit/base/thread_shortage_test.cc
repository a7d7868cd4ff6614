#include "common/base/thread_shortage.h"

#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>
#include <thread>

#include "common/base/status.h"
#include "gmock/gmock.h"

namespace tandem {
namespace {

// A stack takes more than the 4 MB that are left.
void StartOneTooMany() {
  rlim_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (4 << 20);
  const rlimit limit = {most, most};
  setrlimit(RLIMIT_AS, &limit);
  std::thread([] {}).join();
}

TEST(ThreadShortageTest, IsNamedAndEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        NameThreadShortage("tandem-x");
        std::thread(&StartOneTooMany).join();  // where nothing catches
      },
      ::testing::ExitedWithCode(ExitCodeOf(ResourceExhausted(""))),
      testing::HasSubstr("tandem-x: error: cannot start a thread: Resource temporarily "
                         "unavailable [TD3015] (RESOURCE_EXHAUSTED)\nhint: raise ulimit -u"));
}

void Fail() { throw std::runtime_error("a bug"); }

TEST(ThreadShortageTest, OtherExceptionsEndItAsBefore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        NameThreadShortage("tandem-x");
        std::thread(&Fail).join();
      },
      ::testing::KilledBySignal(SIGABRT), "a bug");
}

}  // namespace
}  // namespace tandem
