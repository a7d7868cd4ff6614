#include "pserver/shard/log/replay_queue.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::pserver {
namespace {

PushHead Head(int trainer, uint64_t incarnation, uint64_t sequence, uint64_t step = 0) {
  return {{.caller = {"job", trainer, incarnation}, .sequence = sequence, .step = step}, {}};
}

LogEntry Push(uint64_t number, const PushHead& head) { return {number, PushRecord{head, {}}}; }
LogEntry Order(uint64_t number, const PushHead& head) { return {number, OrderRecord{head}}; }
LogEntry Complete(uint64_t number, const CallerId& caller) {
  return {number, CompleteRecord{caller}};
}

// Returns the numbers of the changes that may be applied now, in order. Numbers of changes without
// values are negated.
std::vector<int64_t> Turn(ReplayQueue& owed) {
  std::vector<int64_t> numbers;
  while (const auto change = owed.Next()) {
    const auto number = static_cast<int64_t>(change->entry.number);
    numbers.push_back(change->lost ? -number : number);
  }
  return numbers;
}

TEST(OwedPushesTest, NobodyOvertakesAPushWithoutValues) {
  ReplayQueue owed;
  EXPECT_TRUE(owed.empty());
  EXPECT_FALSE(owed.Next().has_value());
  owed.Add(Push(5, Head(0, 1, 1)), false);
  owed.Add(Order(6, Head(1, 1, 1)), false);
  owed.Add(Complete(7, Head(0, 1, 0).caller), false);
  owed.Add(Order(8, Head(0, 1, 2)), false);
  EXPECT_EQ(owed.last_number(), 8u);
  EXPECT_EQ(owed.missing(), 2u);
  EXPECT_THAT(Turn(owed), testing::ElementsAre(5));
  // The push that was later in the order arrives first and must wait for the earlier push.
  EXPECT_EQ(*owed.Take(Head(0, 1, 2), {}), 8u);
  EXPECT_THAT(Turn(owed), testing::ElementsAre());
  ASSERT_TRUE(owed.Take(Head(1, 1, 1), {}).ok());
  EXPECT_THAT(Turn(owed), testing::ElementsAre(6, 7, 8));
  EXPECT_TRUE(owed.empty());
  EXPECT_EQ(owed.missing(), 0u);
}

TEST(OwedPushesTest, OnlyThePushThatItWas) {
  ReplayQueue owed;
  owed.Add(Order(1, Head(2, 7, 3, 4)), false);
  EXPECT_TRUE(owed.Misses(Head(2, 7, 3)));
  EXPECT_FALSE(owed.Misses(Head(2, 7, 4)));
  EXPECT_FALSE(owed.Misses(Head(2, 8, 3)));
  EXPECT_FALSE(owed.Misses(Head(1, 7, 3)));
  EXPECT_EQ(owed.Take(Head(2, 7, 3, 5), {}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(owed.Misses(Head(2, 7, 3)));
  EXPECT_TRUE(owed.Take(Head(2, 7, 3, 4), {}).ok());
}

TEST(OwedPushesTest, WhatAnOlderIncarnationKeptIsLostInItsTurn) {
  ReplayQueue owed;
  owed.Add(Order(1, Head(0, 1, 1)), false);
  owed.Add(Order(2, Head(1, 1, 1)), false);
  owed.Add(Order(3, Head(1, 1, 2)), false);
  owed.Add(Order(4, Head(1, 2, 1)), false);
  // This push is lost, so the server requests its values from no trainer.
  owed.Add(Order(5, Head(0, 1, 2)), /*lost=*/true);
  EXPECT_EQ(owed.Senders(), "trainer 0 (1), trainer 1 (3)");
  EXPECT_EQ(owed.MissingOf(1, 1), 2u);
  owed.Lose(1, 2);
  EXPECT_EQ(owed.MissingOf(1, 1), 0u);
  EXPECT_EQ(owed.MissingOf(1, 2), 1u);
  EXPECT_THAT(Turn(owed), testing::ElementsAre());
  ASSERT_TRUE(owed.Take(Head(0, 1, 1), {}).ok());
  EXPECT_THAT(Turn(owed), testing::ElementsAre(1, -2, -3));
  EXPECT_EQ(owed.Senders(), "trainer 1 (1)");
  owed.Lose(1, UINT64_MAX);
  EXPECT_THAT(Turn(owed), testing::ElementsAre(-4, -5));
}

}  // namespace
}  // namespace tandem::pserver
