#include "pserver/client/pushes/push_numbering.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::ps {
namespace {

using testing::ElementsAre;

std::vector<PushPart> PartsFor(const std::vector<size_t>& servers) {
  std::vector<PushPart> parts;
  for (const size_t server : servers) parts.push_back({.server = server, .slices = {}});
  return parts;
}

TEST(PushNumberingTest, EachServerHasASequenceWithoutGaps) {
  PushNumbering numbering(/*sync=*/true);
  const auto push = numbering.Begin(2);
  std::vector<PushPart> first = PartsFor({0, 1, 0}), second = PartsFor({1, 0});
  numbering.Number(first, 2);
  numbering.Number(second, 2);
  numbering.End(push);
  EXPECT_EQ(first[0].header.sequence, 1u);
  EXPECT_EQ(first[1].header.sequence, 1u);
  EXPECT_EQ(first[2].header.sequence, 2u);
  EXPECT_EQ(second[0].header.sequence, 2u);
  EXPECT_EQ(second[1].header.sequence, 3u);
  EXPECT_TRUE(first[0].header.numbers.sent.empty() && first[0].header.numbers.ended.empty())
      << "the step says what is together";
}

TEST(PushNumberingTest, MessagesSayWhichNumbersWereGivenBeforeTheOldestPushInProgress) {
  PushNumbering numbering(/*sync=*/false);
  const auto first = numbering.Begin(2);
  std::vector<PushPart> a = PartsFor({0, 1});
  numbering.Number(a, 2);
  EXPECT_THAT(a[0].header.numbers.sent, ElementsAre(1, 1));
  EXPECT_THAT(a[1].header.numbers.sent, ElementsAre(1, 1)) << "of all messages of the push";
  EXPECT_THAT(a[0].header.numbers.ended, ElementsAre(0, 0));
  const auto second = numbering.Begin(2);
  std::vector<PushPart> b = PartsFor({0});
  numbering.Number(b, 2);
  EXPECT_THAT(b[0].header.numbers.sent, ElementsAre(2, 1));
  EXPECT_THAT(b[0].header.numbers.ended, ElementsAre(0, 0)) << "the first push is in progress";
  numbering.End(first);
  std::vector<PushPart> c = PartsFor({1});
  numbering.Number(c, 2);
  EXPECT_THAT(c[0].header.numbers.ended, ElementsAre(1, 1))
      << "what the second push found at its begin";
  numbering.End(second);
}

TEST(PushNumberingTest, AServerThatJoinsBeginsItsSequence) {
  PushNumbering numbering(/*sync=*/false);
  const auto push = numbering.Begin(1);
  std::vector<PushPart> parts = PartsFor({2});
  numbering.Number(parts, 3);
  EXPECT_EQ(parts[0].header.sequence, 1u);
  EXPECT_THAT(parts[0].header.numbers.sent, ElementsAre(0, 0, 1));
  EXPECT_THAT(parts[0].header.numbers.ended, ElementsAre(0)) << "one server was known at the begin";
  numbering.End(push);
}

}  // namespace
}  // namespace tandem::ps
