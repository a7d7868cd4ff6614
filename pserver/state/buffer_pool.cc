#include "pserver/state/buffer_pool.h"

#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/require.h"
#include "common/os/huge_pages.h"

namespace tandem::pserver {

struct BufferPool::State {
  State(size_t max, std::shared_ptr<Arena> from) : arena(std::move(from)), spare_bytes_max(max) {}

  // Keeps the block for reuse. Drops the block if the pool already has enough unused blocks.
  void GiveBack(Buffer block, size_t bytes) {
    MutexLock lock(mu);
    if (!open || spare_bytes + bytes > spare_bytes_max) return;
    spare[bytes].push_back(std::move(block));
    spare_bytes += bytes;
  }
  Buffer Fresh(size_t bytes) const {
    if (arena != nullptr) {
      if (Buffer block = arena->Allocate(bytes); block != nullptr) return block;
    }
    auto* const block = static_cast<std::byte*>(AllocatePages(bytes, Device::kAlignment));
    return block == nullptr ? nullptr : Buffer(block, &std::free);
  }

  const std::shared_ptr<Arena> arena;
  mutable Mutex mu;
  size_t spare_bytes_max TD_GUARDED_BY(mu);
  std::map<size_t, std::vector<Buffer>> spare TD_GUARDED_BY(mu);
  size_t spare_bytes TD_GUARDED_BY(mu) = 0;
  bool open TD_GUARDED_BY(mu) = true;
};

BufferPool::BufferPool(size_t spare_bytes_max, std::shared_ptr<Arena> arena)
    : state_(std::make_shared<State>(spare_bytes_max, std::move(arena))) {}

BufferPool::~BufferPool() {
  MutexLock lock(state_->mu);
  state_->open = false;
  state_->spare.clear();
}

StatusOr<Buffer> BufferPool::Take(size_t bytes) {
  const size_t rounded =
      std::max(bytes + Device::kAlignment - 1, Device::kAlignment) & ~(Device::kAlignment - 1);
  Buffer block;
  {
    MutexLock lock(state_->mu);
    auto it = state_->spare.find(rounded);
    if (it != state_->spare.end() && !it->second.empty()) {
      block = std::move(it->second.back());
      it->second.pop_back();
      TD_REQUIRE(state_->spare_bytes >= rounded);
      state_->spare_bytes -= rounded;
    }
  }
  if (block == nullptr) block = state_->Fresh(rounded);
  if (block == nullptr)
    return ResourceExhausted("cannot allocate %d bytes: out of memory [TD2116]", rounded);
  std::byte* const data = block.get();
  return Buffer(data, [state = state_, rounded, block = std::move(block)](std::byte*) mutable {
    state->GiveBack(std::move(block), rounded);
  });
}

void BufferPool::SetSpareBytesMax(size_t bytes) {
  MutexLock lock(state_->mu);
  state_->spare_bytes_max = bytes;
}

size_t BufferPool::spare_bytes() const {
  MutexLock lock(state_->mu);
  return state_->spare_bytes;
}

}  // namespace tandem::pserver
