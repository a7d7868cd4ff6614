#include "pserver/state/move_state.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::pserver {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

BucketMap News(std::initializer_list<BucketMove> moves) {
  BucketMap map;
  for (const BucketMove& m : moves) map.Learn(m);
  return map;
}

TEST(MoveStateTest, NoEpochIsUsedTwice) {
  MoveState state;
  state.map = News({{3, 5, 0}});
  EXPECT_THAT(state.MovesOf({2, 3}, 1), ElementsAre(BucketMove{2, 1, 1}, BucketMove{3, 6, 1}));
  state.Begin(state.MovesOf({2, 3}, 1));
  // The move with number 6 was not completed. Nevertheless the next move gets number 7.
  EXPECT_THAT(state.MovesOf({3}, 2), ElementsAre(BucketMove{3, 7, 2}));
  state.map.Learn(BucketMove{3, 9, 0});
  EXPECT_THAT(state.MovesOf({3}, 2), ElementsAre(BucketMove{3, 10, 2})) << "heard of by others";
}

TEST(MoveStateTest, AnEpochThatWouldOverflowCountsForNothing) {
  MoveState state;
  EXPECT_FALSE(state.map.Learn(BucketMove{3, UINT64_MAX, 1}));
  EXPECT_FALSE(state.map.Learn(BucketMove{3, kEpochMax + 1, 1}));
  EXPECT_EQ(state.map.version(), 0u);
  EXPECT_THAT(state.MovesOf({3}, 1), ElementsAre(BucketMove{3, 1, 1}));
}

TEST(MoveStateTest, AMoveIsOverOnceTheBucketIsGivenAway) {
  MoveState state;
  const std::vector<BucketMove> moves = state.MovesOf({7}, 1);
  state.Begin(moves);
  EXPECT_FALSE(state.AreOver(moves));
  BucketMap addresses;
  addresses.SetAddress(1, "there:1");
  state.GiveAway(moves, addresses);
  EXPECT_TRUE(state.AreOver(moves));
  EXPECT_EQ(state.generation, 1u);
  EXPECT_THAT(state.begun, IsEmpty());
  EXPECT_EQ(state.map.owner(7, 0), 1);
  EXPECT_EQ(state.map.addresses().at(1), "there:1");
  EXPECT_FALSE(state.AreOver({{7, 1, 2}})) << "it went elsewhere";
  EXPECT_FALSE(state.AreOver({{-1, 0, 0}}) || state.AreOver({{kBucketsMax, 0, 0}}));
}

TEST(MoveStateTest, WhatCameToNothingIsTakenBackUnderAnEpochOfItsOwn) {
  MoveState state;
  state.Begin(state.MovesOf({4, 5}, 1));
  state.map.Learn(BucketMove{5, 1, 1});  // the move of bucket 5 has completed
  EXPECT_THAT(state.TakeBack(0).moves(), ElementsAre(BucketMove{4, 2, 0}));
  EXPECT_EQ(state.map.owner(4, 9), 0);
  EXPECT_THAT(state.TakeBack(0).moves(), IsEmpty()) << "once";

  MoveState target;  // the server that received the offer of the move
  target.Offer({{4, 1, 1}});
  EXPECT_THAT(target.Learn(state.map, 1).others, ElementsAre(4));
}

TEST(MoveStateTest, NewsDecideWhoseTheOfferedBucketsAre) {
  MoveState state;
  state.Offer({{1, 1, 2}, {2, 3, 2}, {3, 1, 2}, {4, 2, 2}});
  EXPECT_EQ(state.Known({{1, 1, 2}, {2, 4, 2}, {9, 1, 2}}), 1u);
  EXPECT_FALSE(state.Concerns(News({{9, 1, 0}})));
  const BucketMap news = News({{1, 1, 2}, {2, 2, 2}, {3, 2, 2}, {9, 1, 2}});
  EXPECT_TRUE(state.Concerns(news));
  const MoveState::Decided decided = state.Learn(news, /*server=*/2);
  EXPECT_THAT(decided.mine, ElementsAre(1));
  EXPECT_THAT(decided.others, ElementsAre(3)) << "another move than the one that was offered";
  EXPECT_THAT(state.offered, ElementsAre(testing::Pair(2, 3), testing::Pair(4, 2)));
  EXPECT_EQ(state.Known({{1, 1, 2}}), 1u) << "it is over";
  EXPECT_FALSE(state.Concerns(news)) << "it is known";
}

TEST(MoveStateTest, MarksOfOtherServersAreFound) {
  MoveState state;
  TrainerPushState mark{.trainer = 1, .incarnation = 6};
  mark.applied.Take(4);
  AddMark({3, mark}, state.inherited);
  EXPECT_EQ(state.Inherited(3, 1, 5), nullptr);
  EXPECT_EQ(state.Inherited(2, 1, 6), nullptr);
  ASSERT_NE(state.Inherited(3, 1, 6), nullptr);
  EXPECT_EQ(state.Inherited(3, 1, 6)->highest(), 4u);
}

}  // namespace
}  // namespace tandem::pserver
