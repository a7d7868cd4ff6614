// Durability `replayable`: the reply to a push names the log number from which on a checkpoint
// contains the push. The trainer waits for such a checkpoint (--keep_pushes_mb). This trainer may
// be the one whose push completes the step.
#include "gmock/gmock.h"
#include "pserver/shard/checkpoint_calls.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {
namespace {

class ShardReplayTest : public ShardFixture {
 protected:
  void TearDown() override { shard_.reset(); }  // the shard ends before its log
  void StartReplayable() {
    Make({.log = &log_, .replayable = true});
    Start(Config(2, UpdatePolicy::kSync));
    first_ = *shard_->checkpoints().Take();
  }
  // Restarts the shard with the first checkpoint and the log.
  void StartAgain() {
    const std::vector<LogEntry> noted = std::exchange(log_.entries, {});
    Make({.log = &log_, .replayable = true});
    ASSERT_TRUE(shard_->checkpoints().Restore(first_).ok());
    for (const LogEntry& entry : noted) {
      if (entry.number <= first_.log_number) continue;
      ASSERT_TRUE(shard_->checkpoints().Replay(entry).ok());
    }
  }

  LogInMemory log_;
  ShardSnapshot first_;
};

TEST_F(ShardReplayTest, APushThatComesAgainIsHeldByTheStepItWasFor) {
  StartReplayable();
  ASSERT_TRUE(Push(Head(Rank(0), 1, 0), 1).ok());
  ASSERT_TRUE(Push(Head(Rank(1), 1, 0), 1).ok());
  ASSERT_TRUE(Push(Head(Rank(1), 2, 1), 1).ok());  // this push belongs to an incomplete step
  const uint64_t checkpoint = shard_->checkpoints().Take()->log_number;
  const StatusOr<PushOutcome> again = Push(Head(Rank(0), 1, 0), 1);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->duplicate);
  EXPECT_LE(again->log_number, checkpoint);
  // The checkpoint must not contain pushes of the incomplete step.
  EXPECT_GT(Push(Head(Rank(1), 2, 1), 1)->log_number, checkpoint);
}

TEST_F(ShardReplayTest, APushThatAServerAskedForIsHeldByTheStepItWasFor) {
  StartReplayable();
  ASSERT_TRUE(Push(Head(Rank(0), 1, 0), 1).ok());
  ASSERT_TRUE(Push(Head(Rank(1), 1, 0), 1).ok());
  ASSERT_TRUE(Push(Head(Rank(1), 2, 1), 1).ok());
  StartAgain();
  ASSERT_EQ(shard_->checkpoints().missing_pushes(), 3u);
  ASSERT_TRUE(Push(Head(Rank(1), 2, 1), 1).ok());
  ASSERT_TRUE(Push(Head(Rank(1), 1, 0), 1).ok());
  const StatusOr<PushOutcome> asked_for = Push(Head(Rank(0), 1, 0), 1);
  ASSERT_TRUE(asked_for.ok()) << asked_for.status();
  EXPECT_EQ(shard_->checkpoints().missing_pushes(), 0u);
  EXPECT_EQ(asked_for->version, 1u);
  EXPECT_LE(asked_for->log_number, shard_->checkpoints().Take()->log_number);
}

// No trainer has seen a result of the incomplete step, so the new process of the trainer may push
// another gradient for the step.
TEST_F(ShardReplayTest, WhatADeadTrainerGaveToAStepThatWaitsForOthersIsForgotten) {
  StartReplayable();
  ASSERT_TRUE(Push(Head(Rank(0), 1, 0), 5).ok());
  StartAgain();
  ASSERT_EQ(shard_->checkpoints().missing_pushes(), 1u);
  const CallerId successor = Rank(0, kIncarnation + 1);
  ASSERT_EQ(shard_->Greet(successor), OkStatus());
  EXPECT_EQ(shard_->checkpoints().missing_pushes(), 0u);
  ASSERT_TRUE(Push(Head(Rank(1), 1, 0), 1).ok());
  const StatusOr<PushOutcome> anew = Push(Head(successor, 1, 0), 1);
  ASSERT_TRUE(anew.ok()) << anew.status();
  EXPECT_EQ(anew->version, 1u);
  // The value is 1 - 0.5 * (1 + 1), for gradients of 1 from both trainers.
  EXPECT_THAT(Values(*PullNow(1)), testing::Each(0.0f));
}

// The lost push belongs to a complete step. Other trainers may have continued with the result of
// this step, so the job must end.
TEST_F(ShardReplayTest, WithoutWhatADeadTrainerGaveToACompleteStepNobodyGoesOn) {
  StartReplayable();
  ASSERT_TRUE(Push(Head(Rank(0), 1, 0), 5).ok());
  ASSERT_TRUE(Push(Head(Rank(1), 1, 0), 1).ok());
  StartAgain();
  ASSERT_TRUE(Push(Head(Rank(1), 1, 0), 1).ok());
  const Status gone = shard_->Greet(Rank(0, kIncarnation + 1));
  EXPECT_EQ(gone.code(), StatusCode::kAborted);
  EXPECT_THAT(std::string(gone.message()), testing::HasSubstr("for step 1 are lost"));
}

}  // namespace
}  // namespace tandem::pserver
