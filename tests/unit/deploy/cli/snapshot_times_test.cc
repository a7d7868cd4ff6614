// Tests the times of `tandem save --snapshot --every_s`.
#include "deploy/cli/job/global_snapshot.h"
#include "gtest/gtest.h"

namespace tandem::deploy {
namespace {

using std::chrono::seconds;

TEST(SnapshotTimesTest, MissedTimesAreNotMadeUpFor) {
  const Time due = Time() + seconds(1000);
  const Duration every = seconds(10);
  EXPECT_EQ(NextSnapshotTime(due, every, due), due + seconds(10));
  EXPECT_EQ(NextSnapshotTime(due, every, due + seconds(9)), due + seconds(10));
  // The snapshots before took 34 s.
  EXPECT_EQ(NextSnapshotTime(due, every, due + seconds(34)), due + seconds(40));
  EXPECT_EQ(NextSnapshotTime(due, every, due + seconds(40)), due + seconds(50));
}

}  // namespace
}  // namespace tandem::deploy
