#include "common/threads/runner.h"

#include <pthread.h>

#include "common/base/require.h"

namespace tandem {

Status InlineRunner::Post(std::function<void()> work) {
  TD_REQUIRE(work != nullptr);
  work();
  return OkStatus();
}

ThreadPool::ThreadPool(const std::string& name, int threads, size_t queue_max) : queue_(queue_max) {
  TD_REQUIRE(threads > 0 && queue_max > 0);
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this, label = name + "-" + std::to_string(i)] {
      SetThreadName(label);
      while (auto work = queue_.Pop(Time::max())) (*work)();
    });
  }
}

ThreadPool::~ThreadPool() {
  queue_.Close();
  for (std::thread& t : threads_) t.join();
}

Status ThreadPool::Post(std::function<void()> work) {
  switch (queue_.TryPush(std::move(work))) {
    case PushResult::kOk:
      return OkStatus();
    case PushResult::kFull:
      return ResourceExhausted("the work queue is full (%d items)", queue_.capacity());
    case PushResult::kClosed:
      break;
  }
  return Cancelled("cannot run a task, because the thread pool is shut down");
}

void ThreadPool::SendAway(const LeaderCpuTracker& leader) {
  for (std::thread& t : threads_) leader.SendAway(t.native_handle());
}

void ThreadPool::LetGo(const LeaderCpuTracker& leader) {
  for (std::thread& t : threads_) leader.LetGo(t.native_handle());
}

void SetThreadName(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, 15).c_str());
}

}  // namespace tandem
