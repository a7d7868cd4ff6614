// Reuses blocks of memory. Gradients have the same sizes in every step, and new pages from the
// kernel cost more than the copy into them.
#pragma once

#include <cstddef>
#include <memory>

#include "common/base/status.h"
#include "common/shm/arena.h"
#include "common/tensor/device.h"

namespace tandem::pserver {

// Thread-safe. Blocks may outlive the pool; they are then freed with their last reference.
class BufferPool {
 public:
  // Keeps at most `spare_bytes_max` bytes of unused blocks. Allocates blocks from `arena` while it
  // has room; null: never.
  explicit BufferPool(size_t spare_bytes_max, std::shared_ptr<Arena> arena = nullptr);
  ~BufferPool();

  // Returns `bytes` of uninitialised memory, aligned to Device::kAlignment. The block returns to
  // the pool with its last reference. RESOURCE_EXHAUSTED: no memory.
  StatusOr<Buffer> Take(size_t bytes);
  size_t spare_bytes() const;
  void SetSpareBytesMax(size_t bytes);  // applies to blocks returned from now on

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tandem::pserver
