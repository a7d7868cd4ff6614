#include "pserver/tables/rows/row_check_schedule.h"

#include <algorithm>
#include <map>
#include <random>

#include "gmock/gmock.h"

namespace tandem::pserver {
namespace {

constexpr uint32_t kNone = RowCheck{}.age_max;
constexpr int64_t kBegin = 1'700'000'000'000;  // event time in milliseconds

RowCheckSchedule Schedule(const char* rules) { return RowCheckSchedule(*ParseTableRules(rules)); }

TEST(RowCheckScheduleTest, RulesInVersionsNeedNoEventTime) {
  RowCheckSchedule schedule = Schedule("shrink_every=4 ttl=9 decay=0.5");
  for (uint64_t version = 0; version < 20; ++version) {
    const auto check = schedule.Next(version, kBegin);
    ASSERT_EQ(check.has_value(), version > 0 && version % 4 == 0) << version;
    if (!check) continue;
    EXPECT_EQ(*check, (RowCheck{.version = version, .age_max = 9, .decay = 0.5f}));
  }
  EXPECT_EQ(schedule.checks(), RowChecks());
  const auto between = ChecksBetween(*ParseTableRules("shrink_every=4 ttl=9"), 4, 12);
  ASSERT_EQ(between.size(), 2u) << "the check of version 12 precedes the next update";
  EXPECT_EQ(between[0].version, 4u);
  EXPECT_EQ(between[1].version, 8u);
}

TEST(RowCheckScheduleTest, ACheckPrecedesTheFirstUpdateOfEachPeriod) {
  RowCheckSchedule schedule = Schedule("shrink_every_s=10 ttl_s=20 decay=0.5");
  EXPECT_EQ(schedule.Next(0, 0), std::nullopt) << "no event time is known";
  EXPECT_EQ(schedule.Next(1, 1'005'000), std::nullopt) << "the first event time";
  EXPECT_EQ(schedule.Next(2, 1'009'999), std::nullopt) << "the same period";
  EXPECT_EQ(schedule.Next(3, 1'010'000),
            (RowCheck{.version = 3, .time_s = 1010, .age_max = kNone, .decay = 0.5f}));
  EXPECT_EQ(schedule.Next(4, 1'019'000), std::nullopt);
  EXPECT_EQ(schedule.Next(5, 1'008'000), std::nullopt) << "an earlier event time";
  // Two periods later: the decay of two periods, and the rows of the updates before version 3 had
  // no gradient for 20 s.
  EXPECT_EQ(schedule.Next(6, 1'030'500),
            (RowCheck{.version = 6, .time_s = 1030, .age_max = 3, .decay = 0.25f}));
  EXPECT_EQ(schedule.checks().made, 3u);
}

// Compares with an oracle that knows the event time of the last gradient of each row: no row is
// removed before ttl_s seconds, and each row is removed at most two periods later.
TEST(RowCheckScheduleTest, RowsStayForTheirTimeAndAtMostTwoPeriodsLonger) {
  constexpr int64_t kTtl = 30, kPeriod = 7;
  for (uint32_t seed = 0; seed < 50; ++seed) {
    std::mt19937 random(seed);
    RowCheckSchedule schedule = Schedule("shrink_every_s=7 ttl_s=30");
    struct Row {
      uint64_t version;
      int64_t time_s;
    };
    std::map<int, Row> rows;
    int64_t now_ms = kBegin;
    size_t removed = 0;
    for (uint64_t version = 0; version < 300; ++version) {
      now_ms += static_cast<int64_t>(random() % 3000);  // each period has an update
      const int64_t now_s = now_ms / 1000;
      if (const auto check = schedule.Next(version, now_ms)) {
        removed += std::erase_if(rows, [&](const auto& row) {
          const bool gone = version - row.second.version > check->age_max;
          EXPECT_TRUE(!gone || now_s - row.second.time_s >= kTtl) << "removed too early";
          return gone;
        });
      }
      for (const auto& [id, row] : rows) {
        EXPECT_LT(now_s - row.time_s, kTtl + 2 * kPeriod) << "removed too late";
      }
      rows[static_cast<int>(random() % 100)] = {version, now_s};
    }
    EXPECT_GT(removed, 10u);
  }
}

// With one update anywhere in each period, a row stays for almost four periods longer.
TEST(RowCheckScheduleTest, RowsStayForLessThanFourPeriodsLongerIfUpdatesAreRare) {
  RowCheckSchedule schedule = Schedule("shrink_every_s=10 ttl_s=20");
  uint64_t version = 0;
  for (const int64_t s : {0, 19, 20, 30}) {
    const auto check = schedule.Next(version, kBegin + s * 1000);
    EXPECT_TRUE(!check || version <= check->age_max) << "row of version 0, second " << s;
    ++version;
  }
  const auto check = schedule.Next(version, kBegin + 49'000);
  ASSERT_TRUE(check.has_value());
  EXPECT_GT(version, check->age_max) << "29 s longer than ttl_s";
}

TEST(RowCheckScheduleTest, ItContinuesWithTheChecksOfASnapshot) {
  const char* rules = "shrink_every_s=3 ttl_s=10 decay=0.9";
  RowCheckSchedule whole = Schedule(rules), before = Schedule(rules), after = Schedule(rules);
  for (uint64_t version = 0; version < 60; ++version) {
    RowCheckSchedule& part = version < 31 ? before : after;
    if (version == 31) after.Set(before.checks());
    const int64_t time = kBegin + static_cast<int64_t>(version) * 1700;
    EXPECT_EQ(part.Next(version, time), whole.Next(version, time)) << version;
  }
  EXPECT_EQ(after.checks(), whole.checks());
}

TEST(RowCheckScheduleTest, ItRemembersABoundedNumberOfChecks) {
  RowCheckSchedule schedule = Schedule("shrink_every_s=1 ttl_s=10000");
  const uint64_t count = RowCheckSchedule::kRecentMax + 100;
  for (uint64_t version = 0; version < count; ++version) {
    EXPECT_TRUE(schedule.Reaches(0) == (version <= RowCheckSchedule::kRecentMax)) << version;
    (void)schedule.Next(version, kBegin + static_cast<int64_t>(version) * 1000);
  }
  EXPECT_EQ(schedule.checks().made, count);
  EXPECT_EQ(schedule.checks().recent.size(), RowCheckSchedule::kRecentMax);
  EXPECT_FALSE(schedule.Reaches(100))
      << "the check of version 99 was forgotten, perhaps also one of 100";
  EXPECT_TRUE(schedule.Reaches(101));
  EXPECT_EQ(schedule.checks().recent.back().age_max, 10'000u);
}

// The servers of a_sync mode count their versions separately.
TEST(RowCheckScheduleTest, AMovedRowKeepsThePeriodOfItsLastGradient) {
  const char* rules = "shrink_every_s=10 ttl_s=1000";
  RowCheckSchedule fast = Schedule(rules), slow = Schedule(rules);
  std::map<uint64_t, int64_t> fast_time, slow_time;  // event time by version
  const auto train = [](RowCheckSchedule& schedule, std::map<uint64_t, int64_t>& times,
                        uint64_t versions, int64_t step_ms) {
    for (uint64_t version = 0; version < versions; ++version) {
      times[version] = kBegin + static_cast<int64_t>(version) * step_ms;
      (void)schedule.Next(version, times[version]);
    }
  };
  train(fast, fast_time, 1000, 100);
  train(slow, slow_time, 250, 400);
  const auto period = [](int64_t ms) { return ms / 10'000; };
  for (const uint64_t last : {0, 1, 99, 100, 101, 550, 899, 900, 999}) {
    const uint32_t age =
        slow.AgeOfMoved(static_cast<uint32_t>(1000 - last), 1000, fast.checks(), 250);
    ASSERT_LE(age, 250u);
    EXPECT_EQ(period(slow_time.at(250 - age)), period(fast_time.at(last))) << last;
  }
  // A server that is two periods late takes rows of later periods as rows of its newest period.
  RowCheckSchedule late = Schedule(rules);
  std::map<uint64_t, int64_t> late_time;
  train(late, late_time, 80, 1000);
  EXPECT_EQ(late.AgeOfMoved(1, 1000, fast.checks(), 80), 1u);
  EXPECT_LE(late.AgeOfMoved(150, 1000, fast.checks(), 80), 10u);
  // A server in a later period takes the newest rows as rows of the period of the other server.
  const uint32_t age = fast.AgeOfMoved(1, 80, late.checks(), 1000);
  EXPECT_EQ(period(fast_time.at(1000 - age)), period(late_time.at(79)));
  EXPECT_EQ(Schedule(rules).AgeOfMoved(7, 1000, fast.checks(), 80), 7u) << "it has no checks yet";
  EXPECT_EQ(Schedule("").AgeOfMoved(7, 1000, fast.checks(), 80), 7u) << "its rules have no periods";
}

}  // namespace
}  // namespace tandem::pserver
