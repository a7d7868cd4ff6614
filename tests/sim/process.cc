#include "tests/sim/process.h"

#include <utility>

#include "common/base/check.h"

namespace tandem::pserver {

// An event that a process can wait for. Event holds a reference to the process, because a wake-up
// at the deadline may still be scheduled.
struct SimProcess::Event final : ps::PsEvent {
  explicit Event(std::shared_ptr<SimProcess> p) : process(std::move(p)) {}
  void Set() override {
    set = true;
    process->After(Duration::zero(), [p = process] { p->Wake(); });
  }
  bool WaitUntil(Time deadline) override {
    SimWorld& world = process->world_;
    if (!set && !process->dead_) {
      process->After(deadline - world.Now(), [p = process] { p->Wake(); });
    }
    while (!set && !process->dead_ && world.Now() < deadline) process->fiber_->Suspend();
    return set && !process->dead_;
  }
  const std::shared_ptr<SimProcess> process;
  bool set = false;
};

std::unique_ptr<ps::PsEvent> SimProcess::MakeEvent() {
  return std::make_unique<Event>(shared_from_this());
}

void SimProcess::Start(std::function<void()> body) {
  CHECK(fiber_ == nullptr);
  fiber_ = std::make_unique<Fiber>(std::move(body));
  After(Duration::zero(), [self = shared_from_this()] { self->Wake(); });
}

void SimProcess::Wake() {
  if (!fiber_->ended()) fiber_->Resume();
}

void SimProcess::Kill() {
  if (dead_) return;
  dead_ = true;
  held_.clear();
  CHECK(!fiber_->running());
  while (!fiber_->ended()) fiber_->Resume();
}

void SimProcess::Continue() {
  paused_ = false;
  for (auto& what : std::exchange(held_, {})) {
    After(Duration::zero(), std::move(what));
  }
}

void SimProcess::Post(std::function<void()> what) {
  if (dead_) return;
  if (paused_) {
    held_.push_back(std::move(what));
    return;
  }
  what();
}

void SimProcess::After(Duration pause, std::function<void()> what) {
  world_.After(pause, [self = shared_from_this(), what = std::move(what)] { self->Post(what); });
}

}  // namespace tandem::pserver
