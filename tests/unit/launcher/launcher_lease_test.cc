// Tests the lease of a launcher: who renews it is not expired, and who stops is.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>

#include "common/launcher/launcher_lease.h"
#include "tests/support/temp_dir.h"

namespace tandem {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(LauncherLeaseTest, TheTimeOfTheRenewalIsInTheFile) {
  const TempDir dir;
  const std::string path = dir.path() + "/lease";
  EXPECT_EQ(ReadLease(path).status().code(), StatusCode::kNotFound);
  const Time now = SteadyNow();
  ASSERT_TRUE(RenewLease(path, {now, seconds(5)}).ok());
  ASSERT_TRUE(RenewLease(path, {now + seconds(1), seconds(5)}).ok());
  EXPECT_EQ(*ReadLease(path), (LauncherLease{now + seconds(1), seconds(5)}));
  for (const char* wrong : {"", "no number\n", "1\n", "1 0\n", "1 2 3\n"}) {
    std::ofstream(path) << wrong;
    EXPECT_EQ(ReadLease(path).status().code(), StatusCode::kDataLoss) << wrong;
  }
}

TEST(LauncherLeaseTest, AWatchCallsOnceTheLeaseHasExpired) {
  const TempDir dir;
  const std::string path = dir.path() + "/lease";
  std::promise<Duration> expired;
  std::future<Duration> age = expired.get_future();
  const LeaseWatch watch(path, [&](Duration silent) { expired.set_value(silent); });
  // No file is no expired lease, and a renewed lease is not expired.
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(age.wait_for(milliseconds(100)), std::future_status::timeout);
    ASSERT_TRUE(RenewLease(path, {SteadyNow(), milliseconds(1000)}).ok());
  }
  ASSERT_EQ(age.wait_for(seconds(20)), std::future_status::ready);
  EXPECT_GE(age.get(), milliseconds(1000));
}

TEST(LauncherLeaseTest, AWatchEndsAtOnce) {
  const TempDir dir;
  const Time begin = SteadyNow();
  {
    const LeaseWatch watch(dir.path() + "/lease", [](Duration) { FAIL(); });
  }
  EXPECT_LT(SteadyNow() - begin, seconds(20));
}

}  // namespace
}  // namespace tandem
