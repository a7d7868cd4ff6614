#include "tests/sim/fiber.h"

#include <utility>

#include "common/base/check.h"

namespace tandem::pserver {

Fiber::Fiber(std::function<void()> body)
    : body_(std::move(body)), stack_(std::make_unique_for_overwrite<std::byte[]>(kStackBytes)) {
  CHECK_EQ(getcontext(&inside_), 0);
  inside_.uc_stack.ss_sp = stack_.get();
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = &outside_;  // the context that continues when the body of the fiber ends
  // makecontext passes only arguments of type int, so the pointer is passed in two parts.
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::Enter), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
}

Fiber::~Fiber() { CHECK(!started_ || ended_); }

void Fiber::Enter(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Fiber*>(uintptr_t{high} << 32 | low);
  self->body_();
  self->ended_ = true;
  self->running_ = false;
}

void Fiber::Resume() {
  CHECK(!ended_ && !running_);
  started_ = running_ = true;
  CHECK_EQ(swapcontext(&outside_, &inside_), 0);
}

void Fiber::Suspend() {
  CHECK(running_);
  running_ = false;
  CHECK_EQ(swapcontext(&inside_, &outside_), 0);
}

}  // namespace tandem::pserver
