// Runs the blocks of a CUDA kernel on the calling thread, one after another, the threads of a block
// as fibers that give way to each other where they wait. One warp runs as far as it can before the
// next one does, and their order turns around with every block: what depends on it, where a barrier
// is missing, gives other results.
//
// Wrong use ends the process with what it is: a barrier or an exchange that not all take part in.
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
// `value`, of at most 16 bytes, becomes that of lane `from` of the same warp; all 32 take part.
void Exchange(void* value, size_t bytes, unsigned from);
unsigned Lane();

}  // namespace tandem::cuda_on_host

// Of the thread under way; names and place are CUDA's.
extern thread_local tandem::cuda_on_host::Dims threadIdx, blockIdx, blockDim, gridDim;
