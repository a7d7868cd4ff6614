#include "tests/cuda_on_host/blocks.h"

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "common/base/check.h"

thread_local tandem::cuda_on_host::Dims threadIdx, blockIdx, blockDim, gridDim;

namespace tandem::cuda_on_host {
namespace {

constexpr size_t kStack = size_t{64} << 10;
constexpr size_t kValueMax = 16;

enum class State : uint8_t { kReady, kAtBarrier, kAtExchange, kDone };

// A thread of the running block. The next block reuses the stack of this thread.
struct Fiber {
  jmp_buf at;
  bool started = false;
  State state = State::kReady;
  Dims index;
};

// Memory through which the lanes of a warp exchange values. The two halves are used in turn. Thus a
// lane may write a value of the next exchange while other lanes still read values of the previous
// exchange.
struct Warp {
  alignas(kValueMax) std::byte values[2][kWarp][kValueMax];
  unsigned round = 0, inside = 0;
};

class Block {
 public:
  Block()
      : fibers_(kThreadsMax),
        stacks_(static_cast<std::byte*>(mmap(nullptr, kThreadsMax * kStack, PROT_READ | PROT_WRITE,
                                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    CHECK(stacks_ != MAP_FAILED) << "no memory for stacks";
  }
  ~Block() { munmap(stacks_, kThreadsMax * kStack); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void Run(const std::function<void()>& kernel);
  void WaitForBlock();
  bool Any(bool mine);
  void Exchange(void* value, size_t bytes, unsigned from);
  unsigned lane() const { return running_ % kWarp; }

 private:
  static void Main();
  void Resume(unsigned thread);
  // Suspends the running thread and sets its state to `state`. Returns after the scheduler has
  // resumed the thread.
  void Stop(State state);
  bool RunReady();
  void ReleaseBlock();

  std::vector<Fiber> fibers_;
  std::byte* const stacks_;
  std::array<Warp, kThreadsMax / kWarp> warps_;
  const std::function<void()>* kernel_ = nullptr;
  jmp_buf scheduler_;
  unsigned threads_ = 0, running_ = 0;
  unsigned round_ = 0;  // parity of the number of completed barriers
  std::array<bool, 2> any_{};
  bool backwards_ = false;
};

Block& TheBlock() {
  thread_local Block block;
  return block;
}

void Block::Main() {
  Block& block = TheBlock();
  while (true) {
    (*block.kernel_)();
    block.Stop(State::kDone);
  }
}

void Block::Resume(unsigned thread) {
  Fiber& fiber = fibers_[thread];
  running_ = thread;
  threadIdx = fiber.index;
  if (_setjmp(scheduler_) != 0) return;
  if (fiber.started) _longjmp(fiber.at, 1);
  fiber.started = true;
  ucontext_t context;
  CHECK(getcontext(&context) == 0);
  context.uc_stack.ss_sp = stacks_ + thread * kStack;
  context.uc_stack.ss_size = kStack;
  context.uc_link = nullptr;
  makecontext(&context, Main, 0);
  setcontext(&context);
}

void Block::Stop(State state) {
  Fiber& fiber = fibers_[running_];
  fiber.state = state;
  if (_setjmp(fiber.at) == 0) _longjmp(scheduler_, 1);
}

// Runs the warps one after the other. A warp runs until each of its threads waits or has ended.
// Returns whether any thread was ready.
bool Block::RunReady() {
  bool any = false;
  const unsigned warps = (threads_ + kWarp - 1) / kWarp;
  for (unsigned i = 0; i < warps; ++i) {
    const unsigned first = (backwards_ ? warps - 1 - i : i) * kWarp;
    const unsigned end = std::min(first + kWarp, threads_);
    for (unsigned left = end - first; left > 0;) {
      left = 0;
      for (unsigned thread = first; thread < end; ++thread) {
        if (fibers_[thread].state != State::kReady) continue;
        Resume(thread);
        ++left;
      }
      any |= left > 0;
    }
  }
  return any;
}

// Releases the threads that wait at the barrier. Threads that have ended do not take part in a
// barrier.
void Block::ReleaseBlock() {
  for (unsigned t = 0; t < threads_; ++t) {
    CHECK(fibers_[t].state != State::kAtExchange)
        << "thread " << t << " waits for lanes of its warp that are somewhere else";
    if (fibers_[t].state == State::kAtBarrier) fibers_[t].state = State::kReady;
  }
  round_ ^= 1;
  any_[round_] = false;
}

void Block::Run(const std::function<void()>& kernel) {
  kernel_ = &kernel;
  threads_ = static_cast<unsigned>(blockDim.count());
  for (unsigned t = 0; t < threads_; ++t) {
    fibers_[t].state = State::kReady;
    fibers_[t].index = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
  }
  for (Warp& warp : warps_) warp.inside = 0;
  any_ = {};
  while (true) {
    if (RunReady()) continue;
    const auto end = fibers_.begin() + threads_;
    const auto done = [](const Fiber& fiber) { return fiber.state == State::kDone; };
    if (std::all_of(fibers_.begin(), end, done)) break;
    ReleaseBlock();
  }
  backwards_ = !backwards_;
}

void Block::WaitForBlock() { Stop(State::kAtBarrier); }

bool Block::Any(bool mine) {
  const unsigned round = round_;
  any_[round] |= mine;
  WaitForBlock();
  return any_[round];
}

void Block::Exchange(void* value, size_t bytes, unsigned from) {
  CHECK(bytes <= kValueMax && from < kWarp);
  Warp& warp = warps_[running_ / kWarp];
  const unsigned round = warp.round, first = running_ / kWarp * kWarp;
  std::memcpy(warp.values[round][lane()], value, bytes);
  if (++warp.inside < kWarp) {
    Stop(State::kAtExchange);
  } else {
    warp.inside = 0;
    warp.round ^= 1;
    for (unsigned t = first; t < first + kWarp; ++t) {
      if (fibers_[t].state == State::kAtExchange) fibers_[t].state = State::kReady;
    }
  }
  std::memcpy(value, warp.values[round][from], bytes);
}

}  // namespace

void RunBlocks(Dims grid, Dims block, const std::function<void()>& kernel) {
  CHECK(block.count() >= 1 && block.count() <= kThreadsMax && grid.count() >= 1);
  gridDim = grid;
  blockDim = block;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        TheBlock().Run(kernel);
      }
    }
  }
}

void SyncThreads() { TheBlock().WaitForBlock(); }
bool SyncThreadsOr(bool mine) { return TheBlock().Any(mine); }
void Exchange(void* value, size_t bytes, unsigned from) { TheBlock().Exchange(value, bytes, from); }
unsigned Lane() { return TheBlock().lane(); }

}  // namespace tandem::cuda_on_host
