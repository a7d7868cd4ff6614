// Runs the blocks of a CUDA kernel on the calling thread, one after another. The threads of a block
// are fibers that yield to each other where they wait. A warp runs as far as it can before the next
// one, and the order of warps is reversed with every block. So code that depends on the order
// because a barrier is missing gives different results.
//
// Wrong use ends the process with a message: a barrier or an exchange without all threads.
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
// Replaces `value`, of at most 16 bytes, by that of lane `from` of the same warp; all 32 lanes take
// part.
void Exchange(void* value, size_t bytes, unsigned from);
unsigned Lane();

}  // namespace tandem::cuda_on_host

// Variables of the running thread; their names and namespace are CUDA's.
extern thread_local tandem::cuda_on_host::Dims threadIdx, blockIdx, blockDim, gridDim;
