// Tests which pushes a hold admits, and when the state of the server is the state of the snapshot.
#include "pserver/shard/trainers/global_snapshot_hold.h"

#include "tests/unit/pserver/shard/parts_fixture.h"

namespace tandem::pserver {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

class GlobalSnapshotHoldTest : public PartsTest {
 protected:
  GlobalSnapshotHoldTest() { Start(UpdatePolicy::kASync); }

  TrainerRegistry& trainers() { return state_->trainers; }
  void Accept(int trainer, uint64_t sequence) {
    trainers()[trainer].taken.Take(sequence);
    trainers()[trainer].numbers.Raise({.sent = {sequence}, .ended = {sequence - 1}});
  }
  StatusOr<std::vector<SnapshotFrontier>> Hold(uint64_t number, uint64_t taker = 1) {
    return hold_.Hold(number, taker, seconds(2), trainers());
  }
  // Returns a request for a snapshot with the first `sent` pushes of both trainers. All these
  // pushes except the last one have ended.
  static SnapshotRequest Order(uint64_t number, uint64_t sent) {
    SnapshotRequest order{
        .record = {.number = number}, .marks = {}, .lease = seconds(2), .taker = 1};
    for (const int r : {0, 1}) {
      order.marks.push_back({.trainer = r,
                             .incarnation = kIncarnation,
                             .numbers = {.sent = {sent}, .ended = {sent - 1}}});
    }
    return order;
  }
  void Take(const SnapshotRequest& order) {
    ASSERT_EQ(hold_.CheckOrder(order, trainers()), OkStatus());
    hold_.Order(order, [](const StatusOr<PendingSnapshot>&) {});
  }

  Histogram& held_ = metrics_.GetHistogram("held", "for the test", {1});
  GlobalSnapshotHold hold_{0, clock_, held_};
};

TEST_F(GlobalSnapshotHoldTest, HoldsNewPushesUntilTheLeaseEnds) {
  EXPECT_EQ(hold_.Admits(Head(0, 1, 0)), OkStatus());
  ASSERT_TRUE(Hold(5).ok());
  EXPECT_EQ(hold_.Admits(Head(0, 1, 0)).code(), StatusCode::kOutOfRange);
  EXPECT_FALSE(hold_.Expire(trainers(), {}, 0).has_value());
  clock_.Advance(seconds(2));
  EXPECT_EQ(hold_.Admits(Head(0, 1, 0)), OkStatus());
  ASSERT_TRUE(hold_.Expire(trainers(), {}, 0).has_value());
  EXPECT_EQ(Hold(5).status().code(), StatusCode::kFailedPrecondition) << "it is over";
  EXPECT_TRUE(Hold(6).ok());
}

TEST_F(GlobalSnapshotHoldTest, OneSnapshotAtATime) {
  ASSERT_TRUE(Hold(5).ok());
  EXPECT_TRUE(Hold(5).ok()) << "the call is repeated";
  EXPECT_EQ(Hold(5, /*taker=*/2).status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(Hold(6).status().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(hold_.Release(5, /*taker=*/2).has_value());
  EXPECT_TRUE(hold_.active());
  EXPECT_TRUE(hold_.Release(5, /*taker=*/1).has_value());
  EXPECT_FALSE(hold_.active());
  EXPECT_EQ(hold_.last_number(), 5u);
}

TEST_F(GlobalSnapshotHoldTest, AnOrderAdmitsThePushesOfTheSnapshotAlone) {
  Accept(0, 1);
  Accept(1, 1);
  ASSERT_TRUE(Hold(5).ok());
  Take(Order(5, 2));
  EXPECT_EQ(hold_.Admits(Head(0, 2, 0)), OkStatus());
  EXPECT_EQ(hold_.Admits(Head(0, 3, 0)).code(), StatusCode::kOutOfRange);
  PushHead other = Head(0, 2, 0);
  other.caller.incarnation = kIncarnation + 1;
  EXPECT_EQ(hold_.Admits(other).code(), StatusCode::kOutOfRange);
}

TEST_F(GlobalSnapshotHoldTest, WaitsForMissingPushes) {
  Accept(0, 1);
  Accept(1, 1);
  ASSERT_TRUE(Hold(5).ok());
  Take(Order(5, 2));
  const Status missing = hold_.Verdict(trainers(), {}, 0);
  EXPECT_EQ(missing.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(missing.message()), HasSubstr("push 2 of trainer 0"));
  Accept(0, 2);
  Accept(1, 2);
  EXPECT_EQ(hold_.Verdict(trainers(), {}, 0), OkStatus());
}

TEST_F(GlobalSnapshotHoldTest, ASnapshotIsImpossibleAfterOtherChanges) {
  Accept(0, 1);
  Accept(1, 1);
  ASSERT_TRUE(Hold(5).ok());
  Take(Order(5, 1));
  EXPECT_EQ(hold_.Verdict(trainers(), {}, 0), OkStatus());
  EXPECT_EQ(hold_.Verdict(trainers(), {.map_version = 1}, 0).code(), StatusCode::kAborted);
  EXPECT_EQ(hold_.Verdict(trainers(), {.moving = true}, 0).code(), StatusCode::kAborted);
  Accept(0, 2);
  EXPECT_EQ(hold_.Verdict(trainers(), {}, 0).code(), StatusCode::kAborted) << "a push too many";
  trainers()[0].incarnation = kIncarnation + 1;
  EXPECT_EQ(hold_.Verdict(trainers(), {}, 0).code(), StatusCode::kAborted);
}

TEST_F(GlobalSnapshotHoldTest, TheEndReturnsTheCallThatOrdered) {
  Accept(0, 1);
  Accept(1, 1);
  ASSERT_TRUE(Hold(5).ok());
  EXPECT_EQ(hold_.NextDeadline(), Time::max()) << "no call waits";
  EXPECT_EQ(hold_.CheckOrder(Order(6, 1), trainers()).code(), StatusCode::kAborted);
  SnapshotRequest short_order = Order(5, 1);
  short_order.marks.pop_back();
  EXPECT_EQ(hold_.CheckOrder(short_order, trainers()).code(), StatusCode::kInvalidArgument);
  Take(Order(5, 2));
  EXPECT_EQ(hold_.NextDeadline(), clock_.Now() + seconds(2));
  clock_.Advance(seconds(3));
  const auto ended = hold_.Expire(trainers(), {}, 0);
  ASSERT_TRUE(ended.has_value());
  EXPECT_NE(ended->done, nullptr);
  EXPECT_EQ(ended->held, seconds(3));
  EXPECT_EQ(ended->why.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(ended->why.message()), HasSubstr("push 2 of trainer 0"));
  EXPECT_FALSE(hold_.End(OkStatus()).has_value());
}

TEST_F(GlobalSnapshotHoldTest, ATrainerMustNumberItsMessages) {
  trainers()[1].taken.Take(1);
  EXPECT_EQ(Hold(5).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_FALSE(hold_.active());
}

}  // namespace
}  // namespace tandem::pserver
