#include "pserver/client/silence_watch.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tandem::ps {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::Pair;

Time At(int second) { return Time(seconds(second)); }

TEST(SilenceWatchTest, AServerIsReportedWhileItDoesNotReply) {
  std::vector<std::pair<int, Duration>> reports;
  SilenceWatch watch(seconds(10),
                     [&](int server, Duration silent) { reports.emplace_back(server, silent); });
  const Status silent = DeadlineExceeded("no answer");
  watch.OnEnd(0, silent, At(99));
  watch.Start(0, At(100));
  watch.Start(1, At(100));
  watch.Start(0, At(105));  // server 0's call began at 100 and is still in progress
  watch.OnEnd(0, silent, At(109));
  watch.OnEnd(0, silent, At(110));
  EXPECT_THAT(reports, ElementsAre(Pair(0, seconds(10)))) << "from its limit on, since the start";
  watch.OnEnd(0, Unavailable("the connection ended"), At(111));
  watch.OnEnd(0, silent, At(200));
  EXPECT_EQ(reports.size(), 1u) << "a lost connection ends the measurement";
  watch.EndAll();
  watch.OnEnd(1, silent, At(200));
  EXPECT_EQ(reports.size(), 1u);
}

}  // namespace
}  // namespace tandem::ps
