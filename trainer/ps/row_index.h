// Finds the distinct rows to which the ids of a batch refer, and the row of each id. The time is
// linear in the number of ids: a radix sort from the lowest digit (Knuth, The Art of Computer
// Programming 3, 5.2.5).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tandem::trainer {

// Indexes the ids of one batch after another, and reuses its memory for each batch. Not
// thread-safe.
class RowIndex {
 public:
  // Indexes `ids`, a list of pieces. An id equal to `padding` refers to no row. All other ids must
  // be 0 or larger.
  void Set(std::span<const std::span<const int64_t>> ids, int64_t padding);

  // Returns the distinct rows of the ids, ascending.
  const std::vector<int64_t>& rows() const { return rows_; }
  // Returns the index in rows() for each id, in the order of the pieces; -1: the id is padding.
  const std::vector<int32_t>& places() const { return places_; }

 private:
  struct Entry {
    uint64_t id;
    uint32_t at;  // index of the id in places_
  };
  void Sort(uint64_t bits_used);

  std::vector<Entry> entries_, scratch_;
  std::vector<int64_t> rows_;
  std::vector<int32_t> places_;
};

}  // namespace tandem::trainer
