// Tests a WAL whose store fails.
#include "pserver/storage/group_commit_log.h"

#include <deque>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/fake_storage.h"

namespace tandem::pserver {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

class GroupLogTest : public testing::Test {
 protected:
  GroupLogTest() {
    options_.on_end = [this](const Status& why) { ends_.push_back(why); };
  }
  GroupCommitLog& Log() {
    if (!log_) log_.emplace(options_, clock_, storage_, metrics_);
    return *log_;
  }
  // Appends an entry for a push of `elements` values.
  void Append(int64_t elements = 4) {
    PushRecord push;
    push.head.slices = {{"w", 0, {DType::kF32, Shape{elements}}}};
    Log().Append({++number_, std::move(push)});
  }
  std::shared_ptr<Status> Answer() {
    auto answer = std::make_shared<Status>(Unimplemented("not answered"));
    Log().WhenLogged([answer](const Status& status) { *answer = status; });
    return answer;
  }
  void TurnWhenDue() {
    clock_.Advance(std::max(Log().NextTurn() - clock_.Now(), Duration::zero()));
    Log().Turn();
  }

  FakeClock clock_;
  Metrics metrics_;
  FakeStorage storage_;
  GroupLogOptions options_;
  std::vector<Status> ends_;
  uint64_t number_ = 0;
  std::optional<GroupCommitLog> log_;
};

TEST_F(GroupLogTest, AnErrorOfTheStoreEndsTheLogAndIsToldAtOnce) {
  Append();
  const auto first = Answer();
  storage_.append_fails = Unavailable("EIO, once");
  Log().Turn();
  EXPECT_EQ(*first, Unavailable("EIO, once"));
  EXPECT_THAT(ends_, ElementsAre(Unavailable("EIO, once")));
  // The store works again. The log keeps returning the error, because it is unknown how many bytes
  // of the first change the store wrote.
  storage_.append_fails = OkStatus();
  EXPECT_EQ(Log().Ready(4), Unavailable("EIO, once"));
  EXPECT_EQ(Log().NextTurn(), Time::max());
  Append();
  EXPECT_EQ(*Answer(), Unavailable("EIO, once"));
  Log().Turn();
  EXPECT_TRUE(storage_.written.empty());
  EXPECT_EQ(ends_.size(), 1u);
}

TEST_F(GroupLogTest, ASyncThatFailsEndsTheLog) {
  Append();
  const auto first = Answer();
  Log().Turn();
  EXPECT_TRUE(first->ok()) << *first;
  storage_.sync_fails = Unavailable("EIO, once");
  TurnWhenDue();
  storage_.sync_fails = OkStatus();
  EXPECT_EQ(ends_.size(), 1u);
  EXPECT_EQ(Log().Ready(4).code(), StatusCode::kUnavailable);
}

TEST_F(GroupLogTest, LackOfRoomIsToldAtOnceAndEndsWithIt) {
  Append();
  const auto first = Answer();
  storage_.append_fails = ResourceExhausted("1 byte free");
  Log().Turn();
  EXPECT_EQ(*first, ResourceExhausted("1 byte free"));
  EXPECT_EQ(Log().Ready(4), ResourceExhausted("1 byte free"));
  const auto again = Answer();
  EXPECT_LE(Log().NextTurn(), clock_.Now() + milliseconds(100));
  TurnWhenDue();
  EXPECT_EQ(*again, ResourceExhausted("1 byte free"));
  storage_.append_fails = OkStatus();
  const auto last = Answer();
  TurnWhenDue();
  EXPECT_TRUE(last->ok()) << *last;
  EXPECT_THAT(storage_.written, ElementsAre(1));
  EXPECT_TRUE(Log().Ready(4).ok());
  EXPECT_TRUE(ends_.empty());
}

TEST_F(GroupLogTest, EntriesThatTheDiskDoesNotHoldCanBeDropped) {
  Append();
  TurnWhenDue();
  storage_.append_fails = ResourceExhausted("1 byte free");
  Append();
  TurnWhenDue();
  Append();
  const auto waits = Answer();
  Log().DropUnwritten();
  EXPECT_EQ(waits->code(), StatusCode::kUnavailable);
  EXPECT_EQ(Log().written(), 1u);
  storage_.append_fails = OkStatus();
  TurnWhenDue();
  EXPECT_THAT(storage_.written, ElementsAre(1));
  number_ = 1;  // another entry has the number of the first dropped entry
  Append();
  const auto next = Answer();
  TurnWhenDue();
  EXPECT_TRUE(next->ok()) << *next;
  EXPECT_THAT(storage_.written, ElementsAre(1, 2));
  EXPECT_TRUE(ends_.empty());
}

TEST_F(GroupLogTest, WhatWasWrittenIsSyncedWithoutRoomForMore) {
  Append();
  Log().Turn();
  storage_.append_fails = ResourceExhausted("1 byte free");
  Append();
  clock_.Advance(milliseconds(100));
  Log().Turn();
  EXPECT_EQ(storage_.syncs, 1);
}

TEST_F(GroupLogTest, RoomIsAskedForWithWhatWaits) {
  storage_.room = 100;
  EXPECT_TRUE(Log().Ready(100).ok());
  Append(10);
  EXPECT_EQ(Log().Ready(61).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Log().Ready(60).ok());
  Log().Turn();
  EXPECT_TRUE(Log().Ready(100).ok());
}

TEST_F(GroupLogTest, WhatWaitsHasABound) {
  options_.waiting_bytes_max = 100;
  EXPECT_TRUE(Log().Ready(1000).ok()) << "alone";
  Append(10);
  EXPECT_TRUE(Log().Ready(60).ok());
  const Status full = Log().Ready(61);
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("at most 100 bytes may wait [TD4016]"));
  Log().Turn();
  EXPECT_TRUE(Log().Ready(61).ok());
}

TEST_F(GroupLogTest, CallbacksWaitForStandbysToo) {
  Log().Resume(10);
  number_ = 10;
  EXPECT_EQ(Log().written(), 10u);
  EXPECT_TRUE(Answer()->ok());
  Log().AwaitStandbys();
  const auto resumed = Answer();
  Append();
  const auto first = Answer();
  Append();
  const auto second = Answer();
  Log().Turn();
  EXPECT_EQ(Log().written(), 12u);
  EXPECT_FALSE(resumed->ok());
  Log().Replicated(10);
  EXPECT_TRUE(resumed->ok());
  EXPECT_FALSE(first->ok());
  Log().Replicated(11);
  EXPECT_TRUE(first->ok());
  Log().Replicated(5);  // has no effect
  EXPECT_FALSE(second->ok());
  Append();
  const auto third = Answer();
  Log().Replicated(13);  // a standby may not be ahead of the disk of this server
  EXPECT_TRUE(second->ok());
  EXPECT_FALSE(third->ok());
  Log().Turn();
  EXPECT_TRUE(third->ok());
}

TEST_F(GroupLogTest, ACallbackThatWaitsForStandbysReceivesTheErrorOfTheEnd) {
  Log().AwaitStandbys();
  Append();
  const auto answer = Answer();
  Log().Turn();
  EXPECT_EQ(answer->code(), StatusCode::kUnimplemented);
  Log().Close();
  EXPECT_EQ(answer->code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace tandem::pserver
