#include "kernels/exec/dataflow.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "common/base/require.h"
#include "common/threads/runner.h"

namespace tandem::exec {
namespace {

// Number of polls of a thread before it sleeps. Waking a sleeping thread takes tens of
// microseconds, which is longer than many steps.
constexpr int kSpins = 2000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

Dataflow::Dataflow(const StepGraph& graph, int threads) : graph_(graph) {
  TD_REQUIRE(threads >= 1 && graph.followers.size() == graph.waits_for.size());
  for (int t = 1; t < threads; ++t) {
    threads_.emplace_back([this, t] {
      SetThreadName(absl::StrCat("dataflow-", t));
      Serve(t);
    });
  }
}

Dataflow::~Dataflow() {
  {
    MutexLock lock(mu_);
    stop_ = true;
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void Dataflow::AddReady(int step) {
  ready_.push_back(step);
  std::push_heap(ready_.begin(), ready_.end(), std::greater<>());
  news_.fetch_add(1, std::memory_order_relaxed);
}

void Dataflow::AfterStep(int step, const Status& status) {
  --running_;
  TD_REQUIRE(running_ >= 0);
  if (!status.ok() && (failure_.step < 0 || step < failure_.step)) failure_ = {step, status};
  if (failure_.step >= 0) {
    ready_.clear();
  } else {
    for (const int follower : graph_.followers[static_cast<size_t>(step)]) {
      TD_REQUIRE(follower > step && waits_for_[static_cast<size_t>(follower)] > 0);
      if (--waits_for_[static_cast<size_t>(follower)] == 0) AddReady(follower);
    }
  }
  if (done()) news_.fetch_add(1, std::memory_order_relaxed);
  // This thread runs one ready step itself. It wakes other threads if more steps are ready or the
  // run has ended.
  if (idle_ > 0 && (ready_.size() > 1 || done())) changed_.NotifyAll();
}

void Dataflow::RunReady(int thread) {
  TD_REQUIRE(!ready_.empty() && run_ != nullptr);
  std::pop_heap(ready_.begin(), ready_.end(), std::greater<>());
  const int step = ready_.back();
  ready_.pop_back();
  ++running_;
  const RunStep& run = *run_;
  mu_.Unlock();
  const Status status = run(step, thread);
  mu_.Lock();
  AfterStep(step, status);
}

// Blocks until a step may be ready or the run may have ended. May return early.
void Dataflow::AwaitReady() {
  const int news = news_.load(std::memory_order_relaxed);
  if (running_ > 0) {  // Poll first: while steps run, another step will be ready soon.
    mu_.Unlock();
    for (int i = 0; i < kSpins && news_.load(std::memory_order_relaxed) == news; ++i) Pause();
    mu_.Lock();
    if (news_.load(std::memory_order_relaxed) != news) return;
  }
  ++idle_;
  changed_.WaitUntil(mu_, Time::max());
  --idle_;
}

void Dataflow::Serve(int thread) {
  mu_.Lock();
  while (!stop_) {
    if (ready_.empty()) {
      AwaitReady();
    } else {
      RunReady(thread);
    }
  }
  mu_.Unlock();
}

Dataflow::Failure Dataflow::Run(const RunStep& run) {
  MutexLock lock(mu_);
  run_ = &run;
  TD_REQUIRE(running_ == 0 && ready_.empty());
  failure_ = {};
  waits_for_ = graph_.waits_for;
  for (size_t step = 0; step < waits_for_.size(); ++step) {
    if (waits_for_[step] == 0) AddReady(static_cast<int>(step));
  }
  changed_.NotifyAll();
  while (!done()) {
    if (ready_.empty()) {
      AwaitReady();
    } else {
      RunReady(0);
    }
  }
  return failure_;
}

}  // namespace tandem::exec
