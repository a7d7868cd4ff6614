// The rules that say which of several numbered states to keep.
#include "common/base/keep_rules.h"

#include "gmock/gmock.h"

namespace tandem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kMinute = int64_t{60} * 1000 * 1000, kHour = 60 * kMinute, kDay = 24 * kHour;

TEST(KeepRulesTest, AreParsed) {
  EXPECT_EQ(*ParseKeepRules("3"), (KeepRules{.last = 3}));
  EXPECT_EQ(*ParseKeepRules("last=5,hourly=24,daily=7"),
            (KeepRules{.last = 5, .hourly = 24, .daily = 7}));
  EXPECT_EQ(*ParseKeepRules("daily=7"), (KeepRules{.daily = 7}));
  for (const char* text : {"", "0", "last=0", "-1", "weekly=3", "last=x", "last=1,", "100001"}) {
    EXPECT_THAT(std::string(ParseKeepRules(text).status().message()), HasSubstr("[TD1004]"))
        << text;
  }
}

TEST(KeepRulesTest, TheNewestOfEachPeriodStays) {
  // Ten days after the begin of Unix time, snapshots at 0:10, 0:50, 1:20 and 2:00, then the next
  // days.
  const int64_t begin = 10 * kDay;
  const std::vector<KeptState> states = {{1, begin + 10 * kMinute}, {2, begin + 50 * kMinute},
                                         {3, begin + 80 * kMinute}, {4, begin + 2 * kHour},
                                         {5, begin + 1 * kDay},     {6, begin + 3 * kDay}};
  EXPECT_THAT(Kept({.last = 1}, states), ElementsAre(6));
  EXPECT_THAT(Kept({.last = 2, .hourly = 4}, states), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(Kept({.last = 1, .hourly = 100}, states), ElementsAre(2, 3, 4, 5, 6));
  EXPECT_THAT(Kept({.last = 1, .daily = 3}, states), ElementsAre(4, 5, 6));
  EXPECT_THAT(Kept({.last = 1, .daily = 2}, states), ElementsAre(5, 6));
  EXPECT_THAT(Kept({.last = 100}, states), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(KeepRulesTest, AStateOfUnknownTimeIsKeptByNumberOnly) {
  const std::vector<KeptState> states = {{1, 0}, {2, kDay}, {3, 0}};
  EXPECT_THAT(Kept({.last = 1, .daily = 9}, states), ElementsAre(2, 3));
  EXPECT_THAT(Kept({.last = 9}, {}), ElementsAre());
}

}  // namespace
}  // namespace tandem
