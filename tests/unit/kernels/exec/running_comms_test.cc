// Tests the communications of a running plan: their order, the waits for them, their times, and the
// end of a failed iteration.
#include "kernels/exec/running_comms.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tandem {
namespace {

// Records the starts of communications. Completes each communication at once, or when the test
// requests it.
class FakeHandler final : public exec::CommHandler {
 public:
  StatusOr<int> Register(const exec::CommNode&) override { return 0; }
  void Start(int index, int64_t step, exec::CommDone* done) override {
    nodes.push_back(index);
    steps.push_back(step);
    pending.push_back(done);
    if (at_once) done->Complete(result);
  }
  Duration timeout() const override { return std::chrono::milliseconds(200); }

  bool at_once = true;
  Status result;
  std::vector<int> nodes;
  std::vector<int64_t> steps;
  std::vector<exec::CommDone*> pending;
};

const std::vector<int> kNodes = {7, 3};  // indices of two communications in the handler

TEST(RunningComms, StartsTheNodesOfThePlanInOrder) {
  FakeHandler handler;
  exec::RunningComms comms(&handler, kNodes);
  for (int64_t step = 4; step < 6; ++step) {
    comms.Start(0, step);
    comms.Start(1, step);
    EXPECT_TRUE(comms.Wait(0).ok());
    EXPECT_TRUE(comms.Wait(1).ok());
    comms.EndIteration();
  }
  EXPECT_EQ(handler.nodes, (std::vector<int>{7, 3, 7, 3}));
  EXPECT_EQ(handler.steps, (std::vector<int64_t>{4, 4, 5, 5}));
}

TEST(RunningComms, ASkippedCommunicationNeverReachesTheHandler) {
  FakeHandler handler;
  exec::RunningComms comms(&handler, kNodes);
  comms.Skip(0);
  comms.Start(1, 0);
  EXPECT_TRUE(comms.Wait(0).ok());
  EXPECT_TRUE(comms.Wait(1).ok());
  EXPECT_LE(comms.ended(0), comms.ended(1));
  comms.EndIteration();
  EXPECT_EQ(handler.nodes, std::vector<int>{3});
}

TEST(RunningComms, AWaitReturnsTheErrorOfItsCommunicationOnly) {
  FakeHandler handler;
  exec::RunningComms comms(&handler, kNodes);
  handler.result = Unavailable("rank 1 is lost");
  comms.Start(0, 0);
  handler.result = OkStatus();
  comms.Start(1, 0);
  EXPECT_EQ(comms.Wait(0).code(), StatusCode::kUnavailable);
  EXPECT_TRUE(comms.Wait(1).ok());
  comms.Abandon();
  comms.Start(0, 1);  // the next iteration begins with the first communication
  EXPECT_TRUE(comms.Wait(0).ok());
}

TEST(RunningComms, AWaitEndsAtTheTimeoutOfTheHandler) {
  FakeHandler handler;
  handler.at_once = false;
  exec::RunningComms comms(&handler, kNodes);
  comms.Start(0, 0);
  EXPECT_EQ(comms.Wait(0).code(), StatusCode::kDeadlineExceeded);
  handler.pending[0]->Complete(OkStatus());
  EXPECT_TRUE(comms.Wait(0).ok());
}

TEST(RunningComms, AbandonWaitsForWhatRuns) {
  FakeHandler handler;
  handler.at_once = false;
  exec::RunningComms comms(&handler, kNodes);
  comms.Start(0, 0);
  std::thread other([&handler] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    handler.pending[0]->Complete(OkStatus());
  });
  const Time begin = SteadyNow();
  comms.Abandon();
  EXPECT_GE(SteadyNow() - begin, std::chrono::milliseconds(10));
  other.join();
}

TEST(RunningComms, TimesCountOverlapOnceAndWaitsByThread) {
  FakeHandler handler;
  handler.at_once = false;
  exec::RunningComms comms(&handler, kNodes);
  comms.Start(0, 0);
  comms.Start(1, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (exec::CommDone* done : handler.pending) done->Complete(OkStatus());
  EXPECT_TRUE(comms.Wait(0).ok());
  EXPECT_TRUE(comms.Wait(1).ok());
  comms.EndIteration();
  const exec::CommTimes one = comms.times(1), two = comms.times(2);
  EXPECT_GE(one.on_way, 0.02);
  EXPECT_LT(one.on_way, 0.04) << "both ran at the same time";
  EXPECT_DOUBLE_EQ(two.exposed, one.exposed / 2);
  EXPECT_EQ(two.on_way, one.on_way);
}

}  // namespace
}  // namespace tandem
