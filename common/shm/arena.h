// Hands out pieces of one span of memory. Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>

#include "common/base/mutex.h"
#include "common/tensor/device.h"

namespace tandem {

// First fit over a list of free pieces; pieces that are given back join their neighbours. For few
// and large pieces that stay: buckets of gradients.
class Arena : public std::enable_shared_from_this<Arena> {
 public:
  static constexpr size_t kAlignment = 4096;  // pages are never shared by two pieces
  // `owner` keeps `memory` (aligned to kAlignment) alive.
  Arena(std::span<std::byte> memory, std::shared_ptr<const void> owner)
      : memory_(memory), owner_(std::move(owner)) {
    free_[0] = memory.size();
  }

  // Null when no piece is large enough. The piece keeps the arena and its memory alive. What it
  // holds is undefined.
  Buffer Allocate(size_t bytes) TD_EXCLUDES(mu_);
  // Of [data, data + bytes), which must lie in the memory; -1 where it does not.
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
