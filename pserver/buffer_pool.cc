#include "pserver/buffer_pool.h"

#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "common/base/mutex.h"

namespace tandem {

struct BufferPool::State {
  explicit State(size_t max) : spare_bytes_max(max) {}
  ~State() {
    for (auto& [bytes, blocks] : spare) {
      for (void* block : blocks) std::free(block);
    }
  }

  // Keeps the block, or frees it when enough is kept.
  void GiveBack(void* block, size_t bytes) {
    {
      MutexLock lock(mu);
      if (open && spare_bytes + bytes <= spare_bytes_max) {
        spare[bytes].push_back(block);
        spare_bytes += bytes;
        return;
      }
    }
    std::free(block);
  }

  const size_t spare_bytes_max;
  mutable Mutex mu;
  std::map<size_t, std::vector<void*>> spare TD_GUARDED_BY(mu);
  size_t spare_bytes TD_GUARDED_BY(mu) = 0;
  bool open TD_GUARDED_BY(mu) = true;
};

BufferPool::BufferPool(size_t spare_bytes_max) : state_(std::make_shared<State>(spare_bytes_max)) {}

BufferPool::~BufferPool() {
  MutexLock lock(state_->mu);
  state_->open = false;
}

StatusOr<Buffer> BufferPool::Take(size_t bytes) {
  // aligned_alloc wants a multiple of the alignment.
  const size_t rounded =
      std::max(bytes + Device::kAlignment - 1, Device::kAlignment) & ~(Device::kAlignment - 1);
  void* block = nullptr;
  {
    MutexLock lock(state_->mu);
    auto it = state_->spare.find(rounded);
    if (it != state_->spare.end() && !it->second.empty()) {
      block = it->second.back();
      it->second.pop_back();
      state_->spare_bytes -= rounded;
    }
  }
  if (block == nullptr) block = std::aligned_alloc(Device::kAlignment, rounded);
  if (block == nullptr) return ResourceExhausted("no memory for %d bytes", rounded);
  return Buffer(static_cast<std::byte*>(block),
                [state = state_, rounded](std::byte* b) { state->GiveBack(b, rounded); });
}

size_t BufferPool::spare_bytes() const {
  MutexLock lock(state_->mu);
  return state_->spare_bytes;
}

}  // namespace tandem
