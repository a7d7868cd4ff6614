// Runs the blocks of a CUDA kernel on the calling thread, one after another. The threads of a block
// are fibers that yield to each other where they wait. Each warp runs as long as it can before the
// next warp runs. The order of warps is reversed with every block. So a kernel that lacks a barrier
// gives different results in different blocks.
//
// The process ends with a message if only some of the threads take part in a barrier or an
// exchange.
#pragma once

#include <cstddef>
#include <functional>

namespace tandem::cuda_on_host {

struct Dims {
  unsigned x = 1, y = 1, z = 1;
  constexpr Dims(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
  size_t count() const { return size_t{x} * y * z; }
};

constexpr unsigned kWarp = 32, kThreadsMax = 1024;

// Calls `kernel` once for every thread of every block.
void RunBlocks(Dims grid, Dims block, const std::function<void()>& kernel);

// ---- For the threads of a kernel ----------------------------------------------------------------

void SyncThreads();
bool SyncThreadsOr(bool mine);
// Replaces `value` by the value of lane `from` of the same warp. `bytes` is at most 16, and all 32
// lanes must call the function.
void Exchange(void* value, size_t bytes, unsigned from);
unsigned Lane();

}  // namespace tandem::cuda_on_host

// CUDA's variables of the running thread. Names and namespace must be those of CUDA.
extern thread_local tandem::cuda_on_host::Dims threadIdx, blockIdx, blockDim, gridDim;
