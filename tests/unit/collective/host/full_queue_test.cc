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

constexpr size_t kQueueMax = 2;

// A communicator of one rank whose communication thread waits in the callback of the first
// operation, until the queue is full and another thread waits for space.
class FullQueueTest : public ::testing::Test {
 protected:
  FullQueueTest() {
    HostCommunicatorConfig config;
    config.queue_max = kQueueMax;
    config.operation_timeout = seconds(20);
    ranks_ = MakeInprocCommunicators(1, config);
  }

  // Starts more barriers than the queue has space for. `callback` runs on the communication thread
  // while the last Start waits. Returns the statuses of the barriers.
  std::vector<Status> Fill(const std::function<void()>& callback) {
    std::atomic<bool> begin = false;
    ranks_[0]->Barrier({.what = "first"})->OnDone([&](const Status&) {
      while (!begin.load()) std::this_thread::sleep_for(milliseconds(1));
      std::this_thread::sleep_for(milliseconds(50));  // the last Start begins to wait
      callback();
    });
    std::vector<std::shared_ptr<Work>> works;
    for (size_t i = 0; i < kQueueMax; ++i) works.push_back(ranks_[0]->Barrier({.what = "queued"}));
    begin.store(true);
    works.push_back(ranks_[0]->Barrier({.what = "waits for space"}));
    std::vector<Status> statuses;
    for (const auto& work : works) statuses.push_back(work->Wait(In(30)));
    return statuses;
  }

  std::vector<std::unique_ptr<Communicator>> ranks_;
};

TEST_F(FullQueueTest, ACallbackIsRefusedAtOnceWhileAnotherThreadWaits) {
  Status refused;
  Duration taken{};
  const std::vector<Status> statuses = Fill([&] {
    const Time start = SteadyNow();
    refused = ranks_[0]->Barrier({.what = "callback"})->Wait(In(30));
    taken = SteadyNow() - start;
  });
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused;
  EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("queue is full"));
  EXPECT_LT(taken, seconds(5));
  for (const Status& status : statuses) EXPECT_EQ(status, OkStatus());
}

TEST_F(FullQueueTest, AWaitForSpaceEndsAtTheDeadline) {
  HostCommunicatorConfig config;
  config.queue_max = 1;
  config.operation_timeout = milliseconds(100);
  ranks_ = MakeInprocCommunicators(1, config);
  std::atomic<bool> begun = false, end = false;
  ranks_[0]->Barrier()->OnDone([&](const Status&) {
    begun.store(true);
    while (!end.load()) std::this_thread::sleep_for(milliseconds(1));
  });
  while (!begun.load()) std::this_thread::sleep_for(milliseconds(1));
  const auto queued = ranks_[0]->Barrier();
  const auto late = ranks_[0]->Barrier({.what = "late"});
  const Status status = late->Wait(In(30));
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
  end.store(true);
  EXPECT_EQ(queued->Wait(In(30)), OkStatus());
}

}  // namespace
}  // namespace tandem::collective
