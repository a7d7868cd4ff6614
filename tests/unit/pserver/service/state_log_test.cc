// Each change of state writes one line to the log. A repeated call writes no line.
#include "pserver/service/state_log.h"

#include <chrono>

#include "gtest/gtest.h"

namespace tandem::pserver {
namespace {

class StateLogTest : public testing::Test {
 protected:
  FakeClock clock_;
  StateLog log_{clock_};
};

TEST_F(StateLogTest, ATrainerJoinsIsReplacedAndLeavesOnce) {
  EXPECT_EQ(log_.Joined(1, 7, "j"), "trainer 1 joined job \"j\" (incarnation 7)");
  EXPECT_EQ(log_.Joined(1, 7, "j"), "");
  EXPECT_EQ(log_.Joined(1, 8, "j"), "trainer 1 was replaced by incarnation 8");
  EXPECT_EQ(log_.Joined(1, 7, "j"), "");
  EXPECT_EQ(log_.Left(1, 3), "trainer 1 has completed the job; 3 trainers remain");
  EXPECT_EQ(log_.Left(1, 3), "");
}

TEST_F(StateLogTest, ATransferHasItsContentsAndSeconds) {
  const StateLog::Transfer sent{2, 4, 100, 8000};
  EXPECT_EQ(log_.TransferEnded(2, true), "");
  EXPECT_EQ(log_.TransferBegan(sent),
            "transfer to pserver 2 begins: 4 row buckets and slices, 100 rows, 8000 bytes");
  EXPECT_EQ(log_.TransferBegan(sent), "");
  clock_.Advance(std::chrono::milliseconds(250));
  EXPECT_EQ(log_.TransferEnded(2, true),
            "transfer to pserver 2 ended after 0.250 s: 4 row buckets and slices, 100 rows, 8000 "
            "bytes");
  EXPECT_NE(log_.TransferBegan(sent), "");
  EXPECT_EQ(log_.TransferEnded(2, false),
            "transfer to pserver 2 was rolled back after 0.000 s: 4 row buckets and slices, 100 "
            "rows, 8000 bytes");
}

TEST_F(StateLogTest, ASnapshotBeginsAndEndsOnce) {
  EXPECT_EQ(log_.SnapshotEnded(0, -1), "") << "no snapshot has begun";
  EXPECT_EQ(log_.SnapshotBegan(5), "snapshot 5 of all servers begins: new pushes wait");
  EXPECT_EQ(log_.SnapshotBegan(5), "") << "a renewal of the lease";
  clock_.Advance(std::chrono::seconds(2));
  EXPECT_EQ(log_.SnapshotEnded(4, 1), "") << "another snapshot";
  EXPECT_EQ(log_.SnapshotEnded(5, 640), "snapshot 5 ended after 2.000 s: 640 bytes");
  EXPECT_NE(log_.SnapshotBegan(6), "");
  EXPECT_EQ(log_.SnapshotEnded(6, -1), "snapshot 6 failed after 0.000 s");
}

}  // namespace
}  // namespace tandem::pserver
