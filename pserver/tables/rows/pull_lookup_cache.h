// A cache of the row lookups of recent pulls: indices of rows, and initial values of absent rows. A
// trainer usually pushes gradients for the ids that it pulled. The push then takes the indices and
// the initial values from the cache.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tandem::pserver {

// The lookups of the last four pulls. Not thread-safe.
class PullLookupCache {
 public:
  static constexpr size_t kRowsMax = 1 << 16;  // maximum rows of a pull that is cached
  struct Pull {
    std::vector<uint64_t> ids;
    std::vector<uint32_t> at;  // index of each row; RowStore::kNone: the row was absent
    std::vector<float> fresh;  // initial values of the absent rows, in order; may be empty
    uint64_t moves = 0;        // RowStore::moves() at the time of the pull
    uint32_t rows = 0;         // RowStore::size() at the time of the pull
  };

  // Returns the oldest entry. The caller overwrites the entry with a new pull.
  Pull& Add() { return pulls_[next_++ % pulls_.size()]; }
  // Returns the entry with these ids and `moves`; null: there is none. The caller passes the
  // current RowStore::moves(), so the indices of the entry are still valid. A row that was absent
  // at the pull may exist now.
  const Pull* Find(std::span<const uint64_t> ids, uint64_t moves) const;

 private:
  std::array<Pull, 4> pulls_;  // four pulls are enough: a trainer has one or two pulls in progress
  size_t next_ = 0;
};

}  // namespace tandem::pserver
