// A full queue of operations: callers wait for space, and callbacks do not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/unit/collective/world.h"

namespace tandem::collective {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Two ranks. The communication thread of rank 0 waits in the callback of the first operation. Rank
// 1 takes part in the operations that rank 0 queues.
class FullQueueTest : public ::testing::Test {
 protected:
  void Make(size_t queue_max, Duration timeout) {
    HostCommunicatorConfig config;
    config.queue_max = queue_max;
    config.operation_timeout = timeout;
    ranks_ = MakeInprocCommunicators(2, config);
  }
  ~FullQueueTest() override {
    if (peer_.joinable()) peer_.join();
  }

  std::shared_ptr<Work> Barrier(size_t rank) { return ranks_[rank]->Barrier({.deadline = In(30)}); }
  // Starts a barrier, after which the communication thread of rank 0 runs `callback`. Then rank 1
  // takes part in it and in `more` barriers. Rank 1 begins after `callback` is set, because a
  // callback of an ended operation runs on the thread that sets it.
  void Begin(int more, const std::function<void()>& callback) {
    Barrier(0)->OnDone([callback](const Status&) { callback(); });
    peer_ = std::thread([this, more] {
      for (int i = 0; i <= more; ++i) EXPECT_EQ(Barrier(1)->Wait(In(30)), OkStatus());
    });
  }

  World ranks_;
  std::thread peer_;
};

void SleepUntil(const std::atomic<bool>& flag) {
  while (!flag.load()) std::this_thread::sleep_for(milliseconds(1));
}

TEST_F(FullQueueTest, ACallbackIsRefusedAtOnceWhileAnotherThreadWaits) {
  constexpr int kQueued = 2;
  Make(kQueued, seconds(20));
  std::atomic<bool> full = false, inside = false;
  Status refused;
  Duration taken{};
  Begin(kQueued + 1, [&] {
    inside.store(true);
    SleepUntil(full);
    std::this_thread::sleep_for(milliseconds(50));  // the last Start begins to wait
    const Time start = SteadyNow();
    refused = Barrier(0)->Wait(In(30));
    taken = SteadyNow() - start;
  });
  SleepUntil(inside);
  std::vector<std::shared_ptr<Work>> works;
  for (int i = 0; i < kQueued; ++i) works.push_back(Barrier(0));
  full.store(true);
  works.push_back(Barrier(0));
  for (const auto& work : works) EXPECT_EQ(work->Wait(In(30)), OkStatus());
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("queue is full"));
  EXPECT_LT(taken, seconds(5));
}

TEST_F(FullQueueTest, AWaitForSpaceEndsAtTheDeadline) {
  Make(1, milliseconds(100));
  std::atomic<bool> inside = false, end = false;
  Begin(1, [&] {
    inside.store(true);
    SleepUntil(end);
  });
  SleepUntil(inside);
  const auto queued = Barrier(0);
  const Status status = Barrier(0)->Wait(In(30));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
  end.store(true);
  EXPECT_EQ(queued->Wait(In(30)), OkStatus());
}

}  // namespace
}  // namespace tandem::collective
