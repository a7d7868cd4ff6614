#include "common/os/signal_stack.h"

#include <signal.h>

#include <array>
#include <atomic>
#include <memory>

#include "common/base/check.h"

namespace tandem {
namespace {

std::atomic<bool> g_required{false};

// The alternate stack of one thread, for the lifetime of this object.
class SignalStack {
 public:
  SignalStack() {
    stack_t stack{};
    stack.ss_sp = memory_->data();
    stack.ss_size = memory_->size();
    CHECK_EQ(sigaltstack(&stack, nullptr), 0);
  }
  ~SignalStack() {
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    CHECK_EQ(sigaltstack(&none, nullptr), 0);
  }
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

 private:
  static constexpr size_t kBytes = 64 << 10;

  const std::unique_ptr<std::array<char, kBytes>> memory_ =
      std::make_unique<std::array<char, kBytes>>();
};

}  // namespace

void RequireSignalStacks() { g_required = true; }

bool SignalStacksRequired() { return g_required.load(std::memory_order_relaxed); }

void UseSignalStack() { thread_local const SignalStack stack; }

}  // namespace tandem
