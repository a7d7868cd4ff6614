// Tests which times of log entries are kept.
#include "pserver/replication/write_times.h"

#include <vector>

#include "gtest/gtest.h"

namespace tandem::pserver {
namespace {

using std::chrono::milliseconds;

TEST(WriteTimesTest, AnEntryIsAtMostAsOldAsReported) {
  Time now{};
  WriteTimes times(now);
  times.Begin(10, now += milliseconds(500));
  const Time began = now;
  std::vector<Time> written(11, began);  // by number
  while (written.size() < 5000) {
    times.Add(written.size(), now += milliseconds(30));
    written.push_back(now);
    written.push_back(now);
  }
  for (size_t number = 0; number < written.size(); ++number) {
    EXPECT_LE(times.Earliest(number), written[number]) << number;
    EXPECT_GE(times.Earliest(number), began);
    if (number < 11) continue;
    EXPECT_LT(written[number] - times.Earliest(number), milliseconds(130)) << number;
  }
}

// An old entry keeps the time of Begin if its own time is forgotten.
TEST(WriteTimesTest, TheMemoryIsBounded) {
  const Time began{};
  WriteTimes times(began);
  for (uint64_t i = 1; i <= 3000; ++i) times.Add(i, began + milliseconds(100) * i);
  EXPECT_EQ(times.Earliest(1), began);
  EXPECT_EQ(times.Earliest(2000), began);
  EXPECT_EQ(times.Earliest(2500), began + milliseconds(100) * 2500);
}

// The clock of the caller is read without a lock, so that a time may be lower than the last one.
TEST(WriteTimesTest, AnEarlierTimeIsIgnored) {
  const Time began{};
  WriteTimes times(began + milliseconds(10));
  times.Add(5, began);
  EXPECT_EQ(times.Earliest(5), began + milliseconds(10));
}

}  // namespace
}  // namespace tandem::pserver
