// Tests the use of data about servers in their replies: the clocks of servers, the timelines of
// pushed gradients, and the tracks of the trace.
#include "trainer/monitoring/server_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace tandem::trainer {
namespace {

using testing::ElementsAre;

constexpr int64_t kAhead = 1'000'000;  // the servers' clock minus the clock of this process, in us

Time At(int64_t us) { return Time(std::chrono::microseconds(us)); }

// Returns a call with these times. All times are in us by the clock of this process. `update` is 0
// if the server did not report an update.
ps::PsCall Call(int server, rpc::PserverCall of, int64_t begin, int64_t end, int64_t received,
                int64_t answered, int64_t update, bool values) {
  ps::PsCall call{.server = server, .call = of, .begin = At(begin), .end = At(end)};
  call.at_server.values = values;
  call.at_server.received_us = received + kAhead;
  call.at_server.answered_us = answered + kAhead;
  if (update != 0) {
    call.at_server.update_begin_us = update + kAhead;
    call.at_server.update_end_us = update + 5 + kAhead;
  }
  return call;
}

std::vector<std::array<size_t, 3>> WaysOf(const std::vector<ps::PsCall>& calls) {
  std::vector<std::array<size_t, 3>> ways;
  for (const GradientFlow& way : GradientWays(calls)) {
    ways.push_back({way.push, way.update, way.pull});
  }
  return ways;
}

TEST(ServerTrace, ClocksLieWithinWhatAllCallsAllow) {
  std::vector<ps::PsCall> calls = {
      Call(0, rpc::PserverCall::kPush, 1000, 1900, 1100, 1200, 0, true),
      Call(0, rpc::PserverCall::kPull, 3000, 3300, 3020, 3100, 0, true),
      Call(1, rpc::PserverCall::kPull, 3000, 3300, 3200, 3299, 0, true)};
  calls.push_back(Call(0, rpc::PserverCall::kPush, 5000, 5001, 9000, 9001, 0, true));
  calls.back().ok = false;  // a failed call gives no information
  const auto clocks = ServerClocks(calls);
  ASSERT_EQ(clocks.size(), 2u);
  EXPECT_EQ(clocks.at(0).low, -kAhead - 20);
  EXPECT_EQ(clocks.at(0).high, -kAhead + 201);
  EXPECT_EQ(clocks.at(1).low, -kAhead - 200);
  EXPECT_EQ(clocks.at(1).high, -kAhead + 2);
}

TEST(ServerTrace, AGradientGoesThroughTheUpdateBehindItsPush) {
  // One call contains both the push and the pull.
  EXPECT_THAT(WaysOf({Call(0, rpc::PserverCall::kPush, 100, 200, 110, 190, 150, true)}),
              ElementsAre(std::array<size_t, 3>{0, 0, 0}));
  // The reply to the push comes before the update. The pull waits for the update.
  EXPECT_THAT(WaysOf({Call(0, rpc::PserverCall::kPush, 100, 130, 110, 120, 50, false),
                      Call(0, rpc::PserverCall::kPull, 140, 200, 145, 190, 180, true)}),
              ElementsAre(std::array<size_t, 3>{0, 1, 1}));
  // The server applies the push at once. The resulting parameters arrive later, after the
  // parameters of an older pull.
  EXPECT_THAT(WaysOf({Call(0, rpc::PserverCall::kPull, 90, 115, 95, 100, 50, true),
                      Call(0, rpc::PserverCall::kPush, 100, 130, 110, 120, 112, false),
                      Call(0, rpc::PserverCall::kPull, 140, 200, 145, 190, 112, true)}),
              ElementsAre(std::array<size_t, 3>{1, 1, 2}));
}

TEST(ServerTrace, WhatNeverCameBackHasNoWay) {
  EXPECT_TRUE(WaysOf({Call(0, rpc::PserverCall::kPush, 100, 130, 110, 120, 112, false)}).empty());
  EXPECT_TRUE(WaysOf({Call(0, rpc::PserverCall::kPush, 100, 130, 110, 120, 50, false),
                      Call(1, rpc::PserverCall::kPull, 140, 200, 145, 190, 180, true)})
                  .empty())
      << "another server's";
}

TEST(ServerTrace, CallsOfALaneDoNotOverlap) {
  EXPECT_THAT(CallTracks({Call(0, rpc::PserverCall::kPush, 100, 200, 0, 0, 0, true),
                          Call(0, rpc::PserverCall::kPush, 150, 250, 0, 0, 0, true),
                          Call(1, rpc::PserverCall::kPush, 150, 250, 0, 0, 0, true),
                          Call(0, rpc::PserverCall::kPush, 200, 300, 0, 0, 0, true),
                          Call(0, rpc::PserverCall::kPush, 240, 300, 0, 0, 0, true)}),
              ElementsAre(0, 1, 0, 0, 2));
}

}  // namespace
}  // namespace tandem::trainer
