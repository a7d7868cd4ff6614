// What pulls found out about their rows: where they are, and first values of those that are not
// there. The push that follows has the same ids, and need not look them up nor draw values again.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tandem {

// Not thread-safe.
class PullLookupCache {
 public:
  static constexpr size_t kRowsMax = 1 << 16;  // of a pull that is worth its memory
  struct Pull {
    std::vector<uint64_t> ids;
    std::vector<uint32_t> at;  // RowStore::kNone: it was not there
    std::vector<float> fresh;  // values of those that were not there, side by side; or none
    uint64_t moves = 0;        // RowStore::moves() then
    uint32_t rows = 0;         // RowStore::size() then
  };

  // The oldest is dropped; its memory is the new one's.
  Pull& Add() { return pulls_[next_++ % pulls_.size()]; }
  // The one with these ids, or null. What it says of places holds while `moves` is the same; a row
  // that was not there may be there now.
  const Pull* Find(std::span<const uint64_t> ids, uint64_t moves) const;

 private:
  std::array<Pull, 4> pulls_;  // a trainer has one or two under way
  size_t next_ = 0;
};

}  // namespace tandem
