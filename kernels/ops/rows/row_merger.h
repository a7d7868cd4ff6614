// Merges the rows of several gradients, or of one gradient with duplicates, on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::ops {

// Merges a list of (row, values) with duplicates into a sparse gradient. The values of equal rows
// are added to 0 in the order of the list. The sums have the same bits as those of a dense
// gradient.
class RowMerger {
 public:
  // Prepares lists of at most `count` rows of `dim` values, for a variable with `height` rows. Uses
  // `parts` threads. REQUIRES: height and count are below 2^32.
  RowMerger(int64_t count, int64_t height, int64_t dim, int parts);

  size_t scratch_bytes() const;
  // Begins an empty list. The list uses the memory `scratch` until Finish.
  void Begin(void* scratch);
  // Appends a row to the list. `values` must not change until Finish. REQUIRES: row is in [0,
  // height), and fewer than `count` rows were added since Begin.
  void Add(int64_t row, const float* values);
  // Writes the merged rows to outputs of n rows: the row numbers to `rows`, the sums to `values`.
  // REQUIRES: at most n different rows were added.
  void Finish(int64_t* rows, float* values, int64_t n);

 private:
  void Sort();

  struct Entry {
    int64_t row;
    const float* values;
  };
  int64_t count_, height_, dim_;
  int parts_;
  Entry *entries_ = nullptr, *other_ = nullptr;
  int64_t *begin_ = nullptr, *histogram_ = nullptr;
  int64_t added_ = 0;
};

}  // namespace tandem::ops
