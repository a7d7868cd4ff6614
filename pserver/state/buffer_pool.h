// Allocates blocks of memory and reuses them: gradients have the same sizes in every step, and new
// pages from the kernel cost more than the copy of a gradient into them.
#pragma once

#include <cstddef>
#include <memory>

#include "common/base/status.h"
#include "common/shm/arena.h"
#include "common/tensor/device.h"

namespace tandem::pserver {

// A pool of memory blocks. Thread-safe. Blocks may outlive the pool; such a block is freed with its
// last reference.
class BufferPool {
 public:
  // The pool keeps at most `spare_bytes_max` bytes of unused blocks. While `arena` has room, the
  // pool allocates from the arena, then from the heap. `arena` null: always from the heap.
  explicit BufferPool(size_t spare_bytes_max, std::shared_ptr<Arena> arena = nullptr);
  ~BufferPool();

  // Returns `bytes` bytes of uninitialised memory, aligned to Device::kAlignment. The block returns
  // to the pool when its last reference is destroyed. RESOURCE_EXHAUSTED: there is no memory.
  StatusOr<Buffer> Take(size_t bytes);
  size_t spare_bytes() const;
  void SetSpareBytesMax(size_t bytes);  // applies to blocks that return from now on

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tandem::pserver
