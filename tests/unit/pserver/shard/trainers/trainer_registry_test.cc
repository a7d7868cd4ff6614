#include "pserver/shard/trainers/trainer_registry.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::pserver {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

class RosterTest : public testing::Test {
 protected:
  RosterTest() { roster_.Begin(3); }

  double Shown(const std::string& name) { return metrics_.GetGauge(name, "").Value(); }

  FakeClock clock_;
  Metrics metrics_;
  TrainerRegistry roster_{clock_, metrics_};
};

TEST_F(RosterTest, WhoIsSilentIsLostUntilItIsFound) {
  clock_.Advance(seconds(6));
  roster_.Hear(1);
  roster_[2].completed = true;
  clock_.Advance(seconds(4));
  EXPECT_EQ(roster_.NextLoss(seconds(10)), clock_.Now());
  EXPECT_THAT(roster_.LoseSilent(clock_.Now(), seconds(10)), ElementsAre(0));
  EXPECT_THAT(roster_.LoseSilent(clock_.Now(), seconds(10)), IsEmpty()) << "each once";
  EXPECT_EQ(roster_.NextLoss(seconds(10)), clock_.Now() + seconds(6)) << "of trainer 1";
  EXPECT_TRUE(roster_.Gone(0) && !roster_.Gone(1) && roster_.Gone(2));
  EXPECT_EQ(Shown("tandem_pserver_lost_trainers"), 1);
  roster_.OnReturned(0);
  EXPECT_FALSE(roster_.Gone(0));
  EXPECT_EQ(Shown("tandem_pserver_lost_trainers"), 0);
}

TEST_F(RosterTest, WhoWaitsHereIsNotSilent) {
  roster_.BeginWait(0);
  clock_.Advance(seconds(3));
  roster_.BeginWait(0);
  roster_.BeginWait(-1);
  EXPECT_EQ(Shown("tandem_pserver_waiting_calls"), 2);
  clock_.Advance(seconds(60));
  EXPECT_THAT(roster_.LoseSilent(clock_.Now(), seconds(10)), ElementsAre(1, 2));
  roster_.EndWait(0);
  EXPECT_TRUE(roster_.Waits(0));
  roster_.EndWait(0);
  EXPECT_FALSE(roster_.Waits(0));
  EXPECT_EQ(roster_.last_heard(0), clock_.Now());
  EXPECT_EQ(roster_.Info()[0].waited_seconds, 63) << "of both calls together";
  EXPECT_EQ(Shown("tandem_pserver_waiting_calls"), 0);
}

TEST_F(RosterTest, WhoIsGoneIsNotHeardOfWhenItsCallEnds) {
  const Time before = roster_.last_heard(0);
  roster_.BeginWait(0);
  clock_.Advance(seconds(60));
  roster_[0].completed = true;
  roster_.EndWait(0);
  EXPECT_EQ(roster_.last_heard(0), before);
}

TEST_F(RosterTest, WhoIsBehindSaysSoByItsPushesOrItsPulls) {
  roster_[0].pushes = 1;
  roster_[0].last_step = 4;  // the trainer's four earlier pushes went to another server
  roster_[1].told = 7;
  EXPECT_THAT(roster_.Behind(5), ElementsAre(2));
  EXPECT_THAT(roster_.Behind(6), ElementsAre(0, 2));
  roster_[2].completed = true;
  EXPECT_THAT(roster_.Behind(6), ElementsAre(0)) << "nobody waits for who completed";
}

TEST_F(RosterTest, MarksAreThoseOfTheLastSettlement) {
  const auto settled = [&] { return roster_.marks()[1].applied.highest(); };
  roster_[1].taken.Take(1);
  roster_.Settle();
  EXPECT_EQ(settled(), 0u) << "the step is not complete";
  roster_[1].incarnation = 9;
  roster_.ApplyTaken();
  roster_.Settle();
  roster_[1].taken.Take(2);
  roster_.ApplyTaken();
  EXPECT_EQ(settled(), 1u);

  TrainerRegistry other(clock_, metrics_);
  other.Begin(2);
  other.Restore(roster_.marks(), 0);  // the third mark belongs to no trainer of this registry
  EXPECT_EQ(other[1].incarnation, 9u);
  EXPECT_EQ(other[1].taken.highest(), 1u);
  other[1].Replace(10, /*version=*/5);
  EXPECT_EQ(other[1].taken.highest(), 0u);
  EXPECT_EQ(other[1].adopted, 5u);
}

TEST_F(RosterTest, NoIncarnationFromBeforeARestoreIsForgotten) {
  roster_[1].incarnation = 1;
  roster_.ApplyTaken();
  roster_.Settle();
  const std::vector<TrainerPushState> snapshot = roster_.marks();
  roster_[1].Replace(2, /*version=*/0);
  roster_[1].once_steps = 4;
  roster_.Begin(3);
  roster_.Restore(snapshot, /*version=*/0);
  EXPECT_EQ(roster_[1].incarnation, 2u);
  EXPECT_TRUE(roster_[1].rolled_back) << "the process continues after steps that are undone";

  roster_[1].Replace(3, /*version=*/0);
  roster_.Begin(3);
  roster_.Restore(snapshot, /*version=*/0);
  EXPECT_EQ(roster_[1].incarnation, 3u) << "incarnation 2 may still run and push step 4";
  EXPECT_FALSE(roster_[1].rolled_back) << "incarnation 3 has pushed nothing that is undone";
}

TEST_F(RosterTest, EndedPushesThatAServerLacksCountAsLost) {
  constexpr int kServer = 1;
  TrainerRegistry::Trainer& t = roster_[0];
  const auto take = [&t](uint64_t sequence, uint64_t ended) {
    const SentNumbers numbers = {.sent = {}, .ended = {9, ended}};
    const int64_t change = t.CountLost(numbers, sequence, kServer);
    t.taken.Take(sequence);
    t.numbers.Raise(numbers);
    return change;
  };
  EXPECT_EQ(take(1, 0), 0);
  EXPECT_EQ(take(2, 1), 0);
  EXPECT_EQ(take(7, 5), 3) << "the pushes 3, 4 and 5; 6 has not ended";
  EXPECT_EQ(take(8, 7), 1);
  EXPECT_EQ(take(4, 3), -1) << "a delayed copy of a lost push";
  EXPECT_EQ(t.CountLost({.sent = {}, .ended = {9, 10}}, 0, kServer), 2) << "9 and 10";
  EXPECT_EQ(t.lost_pushes, 5u);
  EXPECT_EQ(t.CountLost({.sent = {}, .ended = {9, UINT64_MAX}}, 0, kServer), INT64_MAX - 8)
      << "a number that no client can mean ends no thread";
}

TEST_F(RosterTest, PushesThatARestoreUndidAreNotLost) {
  roster_[1].incarnation = 7;
  roster_.Settle();
  const std::vector<TrainerPushState> snapshot = roster_.marks();
  roster_[1].taken.Take(1);
  roster_[1].numbers.ended = {400};
  roster_.Begin(3);
  roster_.Restore(snapshot, /*version=*/0);
  EXPECT_EQ(roster_[1].CountLost({.sent = {}, .ended = {401}}, 402, /*server=*/0), 1);
}

TEST(TrainerListTest, ReadsAsPeopleSayIt) {
  EXPECT_EQ(TrainerList({}), "no trainer");
  EXPECT_EQ(TrainerList({1}), "trainer 1");
  EXPECT_EQ(TrainerList({1, 3}), "trainers 1, 3");
}

}  // namespace
}  // namespace tandem::pserver
