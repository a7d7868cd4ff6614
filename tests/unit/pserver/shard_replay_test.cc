// From which number of the log on a checkpoint holds a push (durability replayable): its sender, who
// waits for that (--keep_pushes_mb), may be the one whose next push completes the step.
#include "tests/unit/pserver/shard_fixture.h"

namespace tandem {
namespace {

class ShardReplayTest : public ShardFixture {
 protected:
  void TearDown() override { shard_.reset(); }  // before its log
  void StartReplayable() {
    Make({.log = &log_, .replayable = true});
    Start(Config(2, ShardMode::kSync));
  }

  LogInMemory log_;
};

TEST_F(ShardReplayTest, APushThatComesAgainIsHeldByTheStepItWasFor) {
  StartReplayable();
  ASSERT_TRUE(Push(Head(Rank(0), 1, 0), 1).ok());
  ASSERT_TRUE(Push(Head(Rank(1), 1, 0), 1).ok());
  ASSERT_TRUE(Push(Head(Rank(1), 2, 1), 1).ok());  // for a step that is not complete
  const uint64_t checkpoint = shard_->Image()->log_number;
  const StatusOr<PushOutcome> again = Push(Head(Rank(0), 1, 0), 1);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->duplicate);
  EXPECT_LE(again->log_number, checkpoint);
  // What belongs to the step that is not complete is not in it.
  EXPECT_GT(Push(Head(Rank(1), 2, 1), 1)->log_number, checkpoint);
}

TEST_F(ShardReplayTest, APushThatAServerAskedForIsHeldByTheStepItWasFor) {
  StartReplayable();
  const ShardImage first = *shard_->Image();
  ASSERT_TRUE(Push(Head(Rank(0), 1, 0), 1).ok());
  ASSERT_TRUE(Push(Head(Rank(1), 1, 0), 1).ok());
  ASSERT_TRUE(Push(Head(Rank(1), 2, 1), 1).ok());
  const std::vector<LogEntry> noted = std::exchange(log_.entries, {});
  Make({.log = &log_, .replayable = true});
  ASSERT_TRUE(shard_->Restore(first).ok());
  for (const LogEntry& entry : noted) {
    if (entry.number <= first.log_number) continue;
    ASSERT_TRUE(shard_->Replay(entry).ok());
  }
  ASSERT_EQ(shard_->owed(), 3u);
  ASSERT_TRUE(Push(Head(Rank(1), 2, 1), 1).ok());
  ASSERT_TRUE(Push(Head(Rank(1), 1, 0), 1).ok());
  const StatusOr<PushOutcome> asked_for = Push(Head(Rank(0), 1, 0), 1);
  ASSERT_TRUE(asked_for.ok()) << asked_for.status();
  EXPECT_EQ(shard_->owed(), 0u);
  EXPECT_EQ(asked_for->version, 1u);
  EXPECT_LE(asked_for->log_number, shard_->Image()->log_number);
}

}  // namespace
}  // namespace tandem
