#include "pserver/shard/log/delta_base.h"

#include "gtest/gtest.h"

namespace tandem::pserver {
namespace {

ShardSnapshot Whole(DeltaBase& base, uint64_t version) {
  return {.version = version, .order = base.NextOrder()};
}

ShardSnapshot Delta(DeltaBase& base, uint64_t version) {
  return {.version = version, .order = base.NextOrder(), .base = base.version()};
}

TEST(DeltaBaseTest, IsTheNewestWholeImageOnTheDisk) {
  DeltaBase base;
  EXPECT_EQ(base.version(), std::nullopt);
  base.OnStored(Whole(base, 4));
  EXPECT_EQ(base.version(), 4u);
  base.OnStored(Delta(base, 6));
  EXPECT_EQ(base.version(), 4u) << "deltas do not build upon deltas";
  base.OnStored(Whole(base, 8));
  EXPECT_EQ(base.version(), 8u);
}

TEST(DeltaBaseTest, SoManyDeltasStandBetweenWholeImages) {
  DeltaBase base;
  EXPECT_FALSE(base.TakesDelta(2)) << "upon nothing";
  base.OnStored(Whole(base, 1));
  EXPECT_TRUE(base.TakesDelta(2));
  base.OnStored(Delta(base, 2));
  EXPECT_TRUE(base.TakesDelta(2));
  EXPECT_FALSE(base.TakesDelta(2));
  base.OnStored(Whole(base, 4));
  EXPECT_TRUE(base.TakesDelta(2));
  EXPECT_FALSE(base.TakesDelta(0));
}

TEST(DeltaBaseTest, AnImageOfAnotherPastIsNoneHoweverLateItIsKept) {
  DeltaBase base;
  base.OnStored(Whole(base, 1));
  const ShardSnapshot late = Whole(base, 5);
  base.Forget();
  EXPECT_EQ(base.version(), std::nullopt);
  EXPECT_FALSE(base.TakesDelta(9));
  base.OnStored(late);
  EXPECT_EQ(base.version(), std::nullopt);
  base.OnStored(Whole(base, 3));
  EXPECT_EQ(base.version(), 3u);
}

TEST(DeltaBaseTest, WhatWasRestoredBringsItsBase) {
  DeltaBase base;
  ShardSnapshot restored{.version = 7};
  restored.whole = 5;
  base.Resume(restored);
  EXPECT_EQ(base.version(), 5u);
  EXPECT_TRUE(base.TakesDelta(1));
}

}  // namespace
}  // namespace tandem::pserver
