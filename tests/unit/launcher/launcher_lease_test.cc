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
  EXPECT_EQ(LeaseRenewedAt(path).status().code(), StatusCode::kNotFound);
  const Time now = SteadyNow();
  ASSERT_TRUE(RenewLease(path, now).ok());
  ASSERT_TRUE(RenewLease(path, now + seconds(1)).ok());
  EXPECT_EQ(*LeaseRenewedAt(path), now + seconds(1));
  std::ofstream(path) << "no number\n";
  EXPECT_EQ(LeaseRenewedAt(path).status().code(), StatusCode::kDataLoss);
}

TEST(LauncherLeaseTest, AWatchCallsOnceTheLeaseHasExpired) {
  const TempDir dir;
  const std::string path = dir.path() + "/lease";
  std::promise<Duration> expired;
  std::future<Duration> age = expired.get_future();
  const LeaseWatch watch(path, milliseconds(400),
                         [&](Duration silent) { expired.set_value(silent); });
  // No file is no expired lease, and a renewed lease is not expired.
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(age.wait_for(milliseconds(100)), std::future_status::timeout);
    ASSERT_TRUE(RenewLease(path, SteadyNow()).ok());
  }
  ASSERT_EQ(age.wait_for(seconds(20)), std::future_status::ready);
  EXPECT_GE(age.get(), milliseconds(400));
}

TEST(LauncherLeaseTest, AWatchEndsAtOnce) {
  const TempDir dir;
  const Time begin = SteadyNow();
  {
    const LeaseWatch watch(dir.path() + "/lease", std::chrono::hours(1), [](Duration) { FAIL(); });
  }
  EXPECT_LT(SteadyNow() - begin, seconds(20));
}

}  // namespace
}  // namespace tandem
