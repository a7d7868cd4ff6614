// Tests the trainers on the status page of a pserver.
#include "pserver/service/status.h"

#include "gmock/gmock.h"
#include "tests/unit/pserver/shard/shard_fixture.h"

namespace tandem::pserver {
namespace {

using std::chrono::seconds;
using testing::Contains;
using testing::Pair;

class StatusTest : public ShardFixture {
 protected:
  http::StatusDocument Page() const { return StatusOf(shard_->Info(), 0); }
};

TEST_F(StatusTest, TheTrainerForWhichOthersWaitIsTheSlowest) {
  Start(Config(3, UpdatePolicy::kSync));
  EXPECT_THAT(Page().facts, Contains(Pair("slowest", "none")));
  for (uint64_t step = 0; step < 2; ++step) {
    auto first = Pending(), second = Pending();
    ASSERT_TRUE(Push(Head(Rank(0), step + 1, step), 1.0f).ok());
    PullLater(0, step + 1, seconds(60), first);
    clock_.Advance(seconds(1));
    // The second call waits at the same time as the first call.
    PullLater(0, step + 1, seconds(60), Pending());
    ASSERT_TRUE(Push(Head(Rank(2), step + 1, step), 1.0f).ok());
    PullLater(2, step + 1, seconds(60), second);
    clock_.Advance(seconds(2));
    ASSERT_TRUE(Push(Head(Rank(1), step + 1, step), 1.0f).ok());
    ASSERT_TRUE(first->ok()) << first->status();
  }
  EXPECT_THAT(
      Page().facts,
      Contains(
          Pair("slowest", "trainer 1: the others waited 4.0 s longer for it in the last minute")));
  const http::StatusTable trainers = Page().tables[0];
  ASSERT_EQ(trainers.rows.size(), 3u);
  EXPECT_EQ(trainers.columns[5], "waited for others");
  EXPECT_EQ(trainers.rows[0][5], "6.0 s");
  EXPECT_EQ(trainers.rows[1][5], "0.0 s");
  EXPECT_EQ(trainers.rows[2][5], "4.0 s");
  clock_.Advance(seconds(60));
  EXPECT_THAT(Page().facts, Contains(Pair("slowest", "none")));
}

TEST_F(StatusTest, WhoCannotWriteIsNotReadyAndSaysWhy) {
  Start(Config(1, UpdatePolicy::kSync));
  EXPECT_TRUE(Page().ready);
  const http::StatusDocument page = StatusOf(shard_->Info(), 0, ResourceExhausted("1 byte free"));
  EXPECT_FALSE(page.ready);
  EXPECT_THAT(page.facts, Contains(Pair("storage", "1 byte free (RESOURCE_EXHAUSTED)")));
}

TEST_F(StatusTest, NobodyIsSlowAlone) {
  Start(Config(1, UpdatePolicy::kSync));
  for (const auto& [name, value] : Page().facts) EXPECT_NE(name, "slowest") << value;
}

}  // namespace
}  // namespace tandem::pserver
