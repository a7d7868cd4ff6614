#include "trainer/files/step_high_water_mark.h"

#include <gtest/gtest.h>

#include "common/os/files.h"
#include "tests/unit/trainer/test_files.h"

namespace tandem::trainer {
namespace {

using std::chrono::milliseconds;

class FurthestStepTest : public testing::Test {
 protected:
  int64_t Read(const std::string& job = "job") const {
    return StepHighWaterMark(dir_.path(), job, clock_).Read();
  }
  FakeClock clock_;
  TempDir dir_;
};

TEST_F(FurthestStepTest, IsNotedOnceASecondAndNeverGoesBack) {
  EXPECT_EQ(Read(), 0);
  StepHighWaterMark furthest(dir_.path(), "job", clock_);
  furthest.Note(3);
  EXPECT_EQ(Read(), 3);
  clock_.Advance(milliseconds(999));
  furthest.Note(4);
  EXPECT_EQ(Read(), 3);
  clock_.Advance(milliseconds(1));
  furthest.Note(5);
  EXPECT_EQ(Read(), 5);
  StepHighWaterMark successor(dir_.path(), "job", clock_);
  successor.Note(2);
  EXPECT_EQ(Read(), 5);
  successor.Note(6);
  EXPECT_EQ(Read(), 6);
}

TEST_F(FurthestStepTest, WhatIsNotOfTheJobOrDamagedIsNothing) {
  StepHighWaterMark(dir_.path(), "a b", clock_).Note(7);
  EXPECT_EQ(Read("a b"), 7);
  EXPECT_EQ(Read("a"), 0);
  for (const char* text : {"", "job", "job ", "job x", "job -1", "job 1 2"}) {
    ASSERT_TRUE(WriteTextFile(dir_ / "furthest_step", text).ok());
    EXPECT_EQ(Read(), 0) << text;
  }
}

TEST_F(FurthestStepTest, AFolderThatIsNotThereStopsNobody) {
  StepHighWaterMark furthest(dir_ / "none", "job", clock_);
  furthest.Note(1);
  EXPECT_EQ(furthest.Read(), 0);
}

}  // namespace
}  // namespace tandem::trainer
