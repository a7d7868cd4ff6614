// Blocks of memory that are used again: gradients come in the same sizes at every step, and fresh
// pages from the kernel cost more than the copy into them.
#pragma once

#include <cstddef>
#include <memory>

#include "common/base/status.h"
#include "common/shm/arena.h"
#include "common/tensor/device.h"

namespace tandem {

// Thread-safe. Blocks may outlive the pool; then they are freed with their last reference.
class BufferPool {
 public:
  // Keeps at most `spare_bytes_max` bytes of blocks that nobody uses. Blocks are pieces of `arena`
  // as long as it has room; null: never.
  explicit BufferPool(size_t spare_bytes_max, std::shared_ptr<Arena> arena = nullptr);
  ~BufferPool();

  // `bytes` of memory aligned to Device::kAlignment, not initialised. It comes back to the pool
  // with its last reference. RESOURCE_EXHAUSTED when there is no memory.
  StatusOr<Buffer> Take(size_t bytes);
  size_t spare_bytes() const;
  void SetSpareBytesMax(size_t bytes);  // for what comes back from now on

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tandem
