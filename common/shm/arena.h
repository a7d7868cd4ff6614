// An allocator for one span of memory.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>

#include "common/base/mutex.h"
#include "common/tensor/device.h"

namespace tandem {

// Allocates first-fit from a list of free pieces; a freed piece is merged with its neighbours.
// Meant for few, large and long-lived pieces, such as gradient buckets. Thread-safe.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  static constexpr size_t kAlignment = 4096;  // two pieces never share a page
  // `owner` keeps `memory` (aligned to kAlignment) alive.
  Arena(std::span<std::byte> memory, std::shared_ptr<const void> owner)
      : memory_(memory), owner_(std::move(owner)) {
    free_[0] = memory.size();
  }

  // Null: no free piece is large enough. The piece keeps the arena and its memory alive. Its
  // initial content is undefined.
  Buffer Allocate(size_t bytes) TD_EXCLUDES(mu_);
  // Returns the offset of [data, data + bytes); -1: not inside the memory.
  int64_t OffsetOf(const void* data, size_t bytes) const {
    const auto at = reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(memory_.data());
    return at <= memory_.size() && bytes <= memory_.size() - at ? static_cast<int64_t>(at) : -1;
  }

 private:
  void Free(size_t offset, size_t bytes) TD_EXCLUDES(mu_);

  const std::span<std::byte> memory_;
  const std::shared_ptr<const void> owner_;
  Mutex mu_;
  std::map<size_t, size_t> free_ TD_GUARDED_BY(mu_);  // offset: bytes
};

}  // namespace tandem
