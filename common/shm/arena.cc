#include "common/shm/arena.h"

#include <algorithm>
#include <iterator>

#include "common/base/require.h"

namespace tandem {

Buffer Arena::Allocate(size_t bytes) {
  if (bytes > memory_.size()) return nullptr;
  bytes = std::max(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  MutexLock lock(mu_);
  const auto fits =
      std::ranges::find_if(free_, [bytes](const auto& piece) { return piece.second >= bytes; });
  if (fits == free_.end()) return nullptr;
  const auto [offset, size] = *fits;
  free_.erase(fits);
  if (size > bytes) free_[offset + bytes] = size - bytes;
  return Buffer(memory_.data() + offset, [self = shared_from_this(), offset = offset,
                                          bytes](std::byte*) { self->Free(offset, bytes); });
}

void Arena::Free(size_t offset, size_t bytes) {
  MutexLock lock(mu_);
  TD_REQUIRE(offset % kAlignment == 0 && bytes <= memory_.size() - offset);
  auto next = free_.upper_bound(offset);
  TD_REQUIRE(next == free_.end() || offset + bytes <= next->first);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_[offset] = bytes;
}

}  // namespace tandem
