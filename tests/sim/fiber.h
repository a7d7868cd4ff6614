// A function on a stack of its own that can stop in its midst and go on later: so the blocking code
// of many clients runs on one thread.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace tandem {

// Not thread-safe. Whoever destroys a fiber has seen it end, or never resumed it.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body until it suspends itself or ends. REQUIRES: called from outside, not ended.
  void Resume();
  // Back to whoever resumed it. REQUIRES: called from the body.
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

}  // namespace tandem
