#include "common/rpc/stranger_budget.h"

#include "gtest/gtest.h"

namespace tandem::rpc {
namespace {

class StrangerBudgetTest : public testing::Test {
 protected:
  std::unique_ptr<StrangerShare> Arrive() { return std::make_unique<StrangerShare>(budget_); }

  const std::shared_ptr<StrangerBudget> budget_ = std::make_shared<StrangerBudget>(StrangerLimits{
      .calls_burst = 4, .calls_per_second = 1, .bytes_burst = 1000, .bytes_per_second = 100});
  Time now_ = Time(std::chrono::hours(1));
};

TEST_F(StrangerBudgetTest, ConnectionsOfOneAddressShareIt) {
  const auto a = Arrive(), b = Arrive();
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(a->TakeCall(now_) && b->TakeCall(now_));
  EXPECT_FALSE(a->TakeCall(now_));
  EXPECT_FALSE(b->TakeCall(now_));
  EXPECT_TRUE(a->TakeBytes(600, now_));
  EXPECT_FALSE(b->TakeBytes(600, now_));
  now_ += std::chrono::seconds(2);
  EXPECT_TRUE(b->TakeBytes(600, now_));
  EXPECT_TRUE(a->TakeCall(now_) && b->TakeCall(now_));
  EXPECT_FALSE(a->TakeCall(now_));
}

TEST_F(StrangerBudgetTest, AConnectionThatIsGoneGivesItsPartBack) {
  auto a = Arrive();
  const auto b = Arrive();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(a->TakeCall(now_));
  EXPECT_TRUE(a->TakeBytes(900, now_));
  EXPECT_FALSE(b->TakeCall(now_));
  a.reset();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(b->TakeCall(now_));
  EXPECT_TRUE(b->TakeBytes(1000, now_));
}

TEST_F(StrangerBudgetTest, AProvenConnectionTakesNothing) {
  const auto a = Arrive(), b = Arrive();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(a->TakeCall(now_));
  a->Leave();
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(a->TakeCall(now_) && a->TakeBytes(1 << 20, now_));
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(b->TakeCall(now_));
  EXPECT_FALSE(b->TakeCall(now_));
}

TEST_F(StrangerBudgetTest, WhatWasSpentIsAPartOfTheWhole) {
  const auto a = Arrive();
  EXPECT_EQ(a->spent(), 0);
  EXPECT_TRUE(a->TakeBytes(100, now_));
  EXPECT_DOUBLE_EQ(a->spent(), 0.1);
  EXPECT_TRUE(a->TakeCall(now_));
  EXPECT_DOUBLE_EQ(a->spent(), 0.25);
}

}  // namespace
}  // namespace tandem::rpc
