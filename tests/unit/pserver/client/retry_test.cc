// Tests the pauses between attempts: the pauses grow, end at the deadline, and differ between
// callers.
#include "pserver/client/carrier/retry.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace tandem::ps {
namespace {

using std::chrono::milliseconds;

std::vector<Duration> PausesOf(uint64_t stream) {
  CallRetries retries(10, Time(std::chrono::hours(1)), stream);
  std::vector<Duration> pauses;
  for (int attempt = 0; attempt < 8; ++attempt) {
    retries.Begin();
    pauses.push_back(*retries.Pause(StatusCode::kUnavailable, Time()));
  }
  return pauses;
}

TEST(CallRetries, PausesGrowAndDifferFromStreamToStream) {
  std::set<std::vector<Duration>> all;
  for (uint64_t stream = 0; stream < 50; ++stream) {
    const std::vector<Duration> pauses = PausesOf(stream);
    EXPECT_EQ(pauses, PausesOf(stream)) << "the same in each run";
    Duration most = milliseconds(50);
    for (const Duration pause : pauses) {
      EXPECT_GE(pause, most / 2);
      EXPECT_LE(pause, most);
      most = std::min<Duration>(most * 2, std::chrono::seconds(1));
    }
    all.insert(pauses);
  }
  EXPECT_EQ(all.size(), 50u) << "callers that lost a server together do not come back together";
}

TEST(CallRetries, TheLastAttemptHasNoPause) {
  CallRetries retries(1, Time(milliseconds(100)), 7);
  retries.Begin();
  EXPECT_FALSE(retries.Pause(StatusCode::kAborted, Time()).has_value()) << "an answer";
  EXPECT_FALSE(retries.Pause(StatusCode::kUnavailable, Time(milliseconds(99))).has_value());
  EXPECT_TRUE(retries.Pause(StatusCode::kUnavailable, Time()).has_value());
  retries.Begin();
  EXPECT_FALSE(retries.Pause(StatusCode::kUnavailable, Time()).has_value());
}

}  // namespace
}  // namespace tandem::ps
