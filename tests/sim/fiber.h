// A function with a separate stack. The function can suspend itself and continue later. Fibers let
// the blocking code of many clients run on one thread.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace tandem::pserver {

// Not thread-safe. The owner may destroy a fiber only if the body has ended, or if the fiber was
// never resumed.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body until the body suspends itself or ends. REQUIRES: the caller is not the body, and
  // the body has not ended.
  void Resume();
  // Suspends the body and returns to the caller of Resume. REQUIRES: the caller is the body.
  void Suspend();
  bool ended() const { return ended_; }
  bool running() const { return running_; }

 private:
  static void Enter(unsigned high, unsigned low);

  static constexpr size_t kStackBytes = 256 << 10;
  const std::function<void()> body_;
  std::unique_ptr<std::byte[]> stack_;
  ucontext_t inside_, outside_;
  bool started_ = false, running_ = false, ended_ = false;
};

}  // namespace tandem::pserver
