// An allocator that divides one range of memory.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>

#include "common/base/mutex.h"
#include "common/tensor/device.h"

namespace tandem {

// Allocates pieces of one memory range, first-fit from a list of free pieces. A freed piece is
// merged with its free neighbours. The allocator is made for few, large and long-lived pieces, such
// as gradient buckets. Thread-safe.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  // Alignment of pieces in bytes; two pieces never share a page.
  static constexpr size_t kAlignment = 4096;
  // Divides `memory`, which must be aligned to kAlignment. `owner` keeps the memory alive.
  Arena(std::span<std::byte> memory, std::shared_ptr<const void> owner)
      : memory_(memory), owner_(std::move(owner)) {
    free_[0] = memory.size();
  }

  // Allocates `bytes` bytes with undefined content. Returns null if no free piece is large enough.
  // The result keeps the arena and its memory alive.
  Buffer Allocate(size_t bytes) TD_EXCLUDES(mu_);
  // Returns the offset of `data` in the arena's memory. -1: [data, data + bytes) is not in the
  // arena.
  int64_t OffsetOf(const void* data, size_t bytes) const {
    const auto at = reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(memory_.data());
    return at <= memory_.size() && bytes <= memory_.size() - at ? static_cast<int64_t>(at) : -1;
  }

 private:
  void Free(size_t offset, size_t bytes) TD_EXCLUDES(mu_);

  const std::span<std::byte> memory_;
  const std::shared_ptr<const void> owner_;
  Mutex mu_;
  std::map<size_t, size_t> free_ TD_GUARDED_BY(mu_);  // free pieces: offset and size in bytes
};

}  // namespace tandem
