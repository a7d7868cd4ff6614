#include "pserver/client/push_group.h"

#include "common/tables/row_buckets.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::ps {
namespace {

using testing::ElementsAre;

constexpr Time kNow = Time(std::chrono::seconds(100));

// A fixture with two servers, each with half of the rows.
class PushGroupTest : public testing::Test {
 protected:
  PushGroupTest() {
    owners_.rows.assign(kRowBuckets, 0);
    std::fill(owners_.rows.begin() + kRowBuckets / 2, owners_.rows.end(), 1);
  }
  static PushPart Rows(size_t server) {
    codec::CodedSlice ids;
    ids.desc = {DType::kI64, {0}};
    return {.server = server, .slices = {ids}};
  }
  static std::shared_ptr<PushCall> Call(const PushPart& part, bool stale) {
    auto call = std::make_shared<PushCall>();
    call->part = part;
    call->deadline = kNow + std::chrono::seconds(1);
    call->stale = stale;
    return call;
  }
  PushGroup::Rejected Take(PushGroup& group, Time now = kNow, bool over = false) {
    // The rows of a message belong to the server to which the message was sent.
    return group.TakeRejected(now, over, owners_,
                              [](const PushPart& part) { return std::set<size_t>{part.server}; });
  }

  OwnerMap owners_;
};

TEST_F(PushGroupTest, AMessageThatMayStillArriveIsSentAgainAsItIs) {
  PushGroup group({Rows(0), Rows(1)}, PushGroup::Joins::kRows);
  const auto zero = Call(Rows(0), false), one = Call(Rows(1), false);
  group.Begin(*zero);
  group.Begin(*one);
  EXPECT_TRUE(group.Reject(zero));
  EXPECT_FALSE(group.Reject(one)) << "the first rejection already looks for owners";
  EXPECT_THAT(group.RejectedBy(), ElementsAre(0, 1));
  EXPECT_THAT(Take(group).same, ElementsAre(zero, one));
  EXPECT_FALSE(group.LooksAgain());
  EXPECT_TRUE(group.Reject(zero)) << "it was in progress again, and nothing looks";
}

TEST_F(PushGroupTest, RowsWaitForMessagesInProgressToTheirNewServers) {
  PushGroup group({Rows(0), Rows(0), Rows(1)}, PushGroup::Joins::kRows);
  const auto rejected = Call(Rows(0), true), other = Call(Rows(0), false);
  const auto far = Call(Rows(1), false);
  group.Begin(*rejected);
  group.Begin(*other);
  ASSERT_TRUE(group.Reject(rejected));
  EXPECT_TRUE(Take(group).must_wait) << "a message has not begun";
  EXPECT_TRUE(group.LooksAgain());
  group.Begin(*far);
  EXPECT_TRUE(Take(group).must_wait) << "a message with rows is in progress to server 0";
  EXPECT_EQ(group.NextWait(), 0);
  EXPECT_EQ(group.NextWait(), 1);
  group.End(*other, OkStatus());
  const PushGroup::Rejected taken = Take(group);
  EXPECT_FALSE(taken.must_wait) << "server 1 is not concerned";
  EXPECT_THAT(taken.resplit, ElementsAre(rejected));
  EXPECT_FALSE(group.LooksAgain());
}

// Server 0 counts a step with its first message. So a message to it waits for the other one, also
// without rows.
TEST_F(PushGroupTest, AllMessagesOfAServerAreJoinedIfItCountsSteps) {
  const PushPart slices{.server = 0};
  const auto rejected = Call(slices, true), other = Call(slices, false);
  for (const auto joins : {PushGroup::Joins::kRows, PushGroup::Joins::kAll}) {
    PushGroup group({slices, slices}, joins);
    group.Begin(*rejected);
    group.Begin(*other);
    ASSERT_TRUE(group.Reject(rejected));
    EXPECT_EQ(Take(group).must_wait, joins == PushGroup::Joins::kAll);
  }
}

TEST_F(PushGroupTest, AServerThatIsGoneIsNotAsked) {
  PushGroup group({Rows(0), Rows(1)}, PushGroup::Joins::kAll);
  const auto gone = Call(Rows(0), true), other = Call(Rows(1), true);
  gone->gone = true;
  gone->deadline += std::chrono::seconds(5);
  group.Begin(*gone);
  group.Begin(*other);
  group.Reject(gone);
  group.Reject(other);
  EXPECT_THAT(group.RejectedBy(), ElementsAre(1));
  EXPECT_THAT(Take(group, kNow + std::chrono::seconds(2)).resplit, ElementsAre(gone, other))
      << "the other message waits as long as the one whose server is gone";
}

TEST_F(PushGroupTest, AServerWithoutRowsBeforeHoldsBackAllRows) {
  PushGroup group({Rows(0), Rows(1)}, PushGroup::Joins::kRows);
  owners_.rows.back() = 2;  // server 2 has joined and owns the last row bucket
  const auto rejected = Call(Rows(0), true), other = Call(Rows(1), false);
  group.Begin(*rejected);
  group.Begin(*other);
  ASSERT_TRUE(group.Reject(rejected));
  EXPECT_FALSE(Take(group).must_wait) << "server 2 gets no message of `other`";
  EXPECT_THAT(group.MoveRows({rejected}, owners_.RowOwners()), ElementsAre(0, 2));
  EXPECT_TRUE(group.MoveRows({}, owners_.RowOwners()).empty()) << "they have entries now";
}

TEST_F(PushGroupTest, AtTheEndAllRejectedMessagesAreLate) {
  PushGroup group({Rows(0), Rows(1)}, PushGroup::Joins::kRows);
  const auto zero = Call(Rows(0), true), one = Call(Rows(1), false);
  group.Begin(*zero);
  group.Begin(*one);
  ASSERT_TRUE(group.Reject(zero));
  EXPECT_THAT(Take(group, kNow + std::chrono::seconds(1)).late, ElementsAre(zero));
  EXPECT_FALSE(group.LooksAgain());
  ASSERT_TRUE(group.Reject(one));
  EXPECT_THAT(Take(group, kNow, /*over=*/true).late, ElementsAre(one));
  EXPECT_FALSE(group.LooksAgain());
}

// Server 0 gets a message whose rows may now belong to server 1. Server 1 rejects the other
// message. If the first message fails, server 1 must not get the other message alone.
TEST_F(PushGroupTest, AfterAFailureNoRejectedMessageIsSentAgain) {
  for (const bool stale : {false, true}) {
    PushGroup group({Rows(0), Rows(1)}, PushGroup::Joins::kRows);
    const auto zero = Call(Rows(0), stale), one = Call(Rows(1), stale);
    group.Begin(*zero);
    group.Begin(*one);
    ASSERT_TRUE(group.Reject(one));
    group.End(*zero, Aborted("replaced"));
    const PushGroup::Rejected taken = Take(group);
    EXPECT_THAT(taken.late, ElementsAre(one));
    EXPECT_TRUE(taken.same.empty() && taken.resplit.empty());
    EXPECT_EQ(taken.failure, Aborted("replaced"));
    EXPECT_FALSE(group.LooksAgain());
  }
}

TEST_F(PushGroupTest, OneLateMessageEndsAllRejectedMessages) {
  PushGroup group({Rows(0), Rows(1)}, PushGroup::Joins::kRows);
  const auto zero = Call(Rows(0), true), one = Call(Rows(1), true);
  one->deadline += std::chrono::seconds(5);
  group.Begin(*zero);
  group.Begin(*one);
  ASSERT_TRUE(group.Reject(zero));
  ASSERT_FALSE(group.Reject(one));
  EXPECT_THAT(Take(group, zero->deadline).late, ElementsAre(zero, one));
}

}  // namespace
}  // namespace tandem::ps
