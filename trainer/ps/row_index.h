// The different rows that the ids of a batch ask for, and which of them each id means. By radix
// sort from the lowest digit (Knuth, The Art of Computer Programming 3, 5.2.5), so the time is
// linear in the number of ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tandem {

// Not thread-safe; keeps its memory from batch to batch.
class RowIndex {
 public:
  // `ids` in some pieces, none of them negative; those that are `padding` ask for no row.
  void Set(std::span<const std::span<const int64_t>> ids, int64_t padding);

  // Ascending.
  const std::vector<int64_t>& rows() const { return rows_; }
  // Of each id, piece behind piece, its place in rows(); -1 for padding.
  const std::vector<int32_t>& places() const { return places_; }

 private:
  struct Entry {
    uint64_t id;
    uint32_t at;  // in places_
  };
  void Sort(uint64_t bits_used);

  std::vector<Entry> entries_, scratch_;
  std::vector<int64_t> rows_;
  std::vector<int32_t> places_;
};

}  // namespace tandem
