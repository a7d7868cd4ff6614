// Runs the blocks of a CUDA kernel on the calling thread, one after another. The threads of a block
// are fibers. A fiber yields to other fibers where the thread waits. Each warp runs until all its
// threads wait or have ended; then the next warp runs. The order of warps is reversed with every
// block. Thus a kernel that lacks a barrier gives different results in different blocks.
//
// The process aborts with a message if only some lanes of a warp take part in an exchange.
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
// Sets `value` to the value of lane `from` of the same warp. `bytes` is the size of the value, at
// most 16. All 32 lanes must call the function.
void Exchange(void* value, size_t bytes, unsigned from);
unsigned Lane();

}  // namespace tandem::cuda_on_host

// CUDA's variables of the running thread. Names and namespace must be those of CUDA.
extern thread_local tandem::cuda_on_host::Dims threadIdx, blockIdx, blockDim, gridDim;
