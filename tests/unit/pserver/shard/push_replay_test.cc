// Tests the order of replayed changes, how changes wait for their values, and lost values.
#include "pserver/shard/push_replay.h"

#include "tests/unit/pserver/shard/parts_fixture.h"

namespace tandem::pserver {
namespace {

using testing::HasSubstr;

class PushReplayTest : public PartsTest {
 protected:
  static LogEntry Order(uint64_t number, int trainer, uint64_t sequence, uint64_t step = 0) {
    return {number, OrderRecord{Head(trainer, sequence, step)}};
  }
};

TEST_F(PushReplayTest, ChangesComeInTheirOrderOnceTheirValuesAreHere) {
  Start(UpdatePolicy::kASync);
  PushReplay replay(*state_);
  ASSERT_EQ(replay.Add(Order(1, 0, 1), /*lost=*/false), OkStatus());
  ASSERT_EQ(replay.Add(Order(2, 1, 1), /*lost=*/false), OkStatus());
  EXPECT_EQ(replay.Add(Order(4, 0, 2), false).code(), StatusCode::kDataLoss) << "3 is missing";
  EXPECT_EQ(replay.last_number(), 2u);
  EXPECT_EQ(replay.missing(), 2u);
  EXPECT_FALSE(*replay.Finish());

  EXPECT_EQ(*replay.Supply(Head(1, 1, 0), {FloatBuffer({1, 1, 1, 1})}), 2u);
  EXPECT_FALSE(replay.Next().has_value()) << "the first still waits";
  EXPECT_EQ(*replay.Supply(Head(0, 1, 0), {FloatBuffer({1, 1, 1, 1})}), 1u);
  EXPECT_EQ(replay.Next()->entry.number, 1u);
  EXPECT_EQ(replay.Next()->entry.number, 2u);
  EXPECT_TRUE(replay.empty());
  EXPECT_TRUE(*replay.Finish()) << "a checkpoint frees the trainers' pushes";
  EXPECT_FALSE(*replay.Finish()) << "once";
}

TEST_F(PushReplayTest, CallersLearnWhoMustSendAgain) {
  Start(UpdatePolicy::kASync);
  PushReplay replay(*state_);
  EXPECT_EQ(replay.CheckComplete(), OkStatus());
  ASSERT_TRUE(replay.Add(Order(1, 1, 1), /*lost=*/false).ok());
  EXPECT_EQ(replay.CheckComplete(Head(1, 0, 0).caller).code(), StatusCode::kDataLoss);
  const Status wait = replay.CheckComplete(Head(0, 0, 0).caller);
  EXPECT_EQ(wait.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(wait.message()), HasSubstr("trainer 1"));
  EXPECT_EQ(replay.incarnation(1), kIncarnation);
  EXPECT_EQ(replay.incarnation(0), 0u);
  PushHead other = Head(1, 1, 0);
  EXPECT_TRUE(replay.Misses(other));
  other.caller.job = "another";
  EXPECT_FALSE(replay.Misses(other));
}

TEST_F(PushReplayTest, ValuesOfOlderIncarnationsAreLost) {
  Start(UpdatePolicy::kASync);
  PushReplay replay(*state_);
  ASSERT_TRUE(replay.Add(Order(1, 0, 1), /*lost=*/false).ok());
  replay.Lose(0, kIncarnation);
  EXPECT_EQ(replay.missing(), 1u) << "of this incarnation";
  replay.Lose(0, kIncarnation + 1);
  EXPECT_EQ(replay.missing(), 0u);
  EXPECT_TRUE(replay.Next()->lost);
}

// In sync mode, the replacement of a trainer computes a lost push of an incomplete step again. A
// lost push of a complete step cannot be computed again, because the servers have acknowledged the
// step.
TEST_F(PushReplayTest, ALostPushOfACompleteStepEndsTheJob) {
  Start(UpdatePolicy::kSync);
  PushReplay incomplete(*state_);
  incomplete.OnLostPush(Head(0, 1, 0));
  EXPECT_TRUE(incomplete.Finish().ok()) << "trainer 1 has not pushed the step";
  EXPECT_EQ(incomplete.Failure(DataLoss("x")).message(), "x");

  PushReplay complete(*state_);
  complete.OnLostPush(Head(0, 1, 0));
  complete.OnLostPush(Head(1, 1, 0));
  EXPECT_EQ(complete.Finish().status().code(), StatusCode::kAborted);
  EXPECT_THAT(std::string(complete.Failure(DataLoss("x")).message()), HasSubstr("trainer 0"));
  complete.OnReplaced(0);
  complete.OnReplaced(1);
  EXPECT_TRUE(complete.Finish().ok());
}

}  // namespace
}  // namespace tandem::pserver
