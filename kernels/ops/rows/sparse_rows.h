// Sparse gradients in a program (Paddle's SelectedRows). The gradient of a variable [height, dim]
// is a pair of variables of fixed size:
//   Rows   i64 [n]       row numbers, ascending, each once; then -1
//   Values f32 [n, dim]  those rows of the gradient; zeros where Rows is -1
// All other rows of the gradient are 0. n is the largest possible number of rows. It never depends
// on data, so a plan's memory is fixed.
#pragma once

#include <algorithm>
#include <span>

#include "common/base/prefetch.h"
#include "kernels/ops/core/op.h"

namespace tandem {

// Checks that inputs `values` and `rows` of `view` are such a pair for a variable [height, dim];
// dim -1: any. INVALID_ARGUMENT: they are not.
Status NeedSparseRows(const OpView& view, size_t values, size_t rows, int64_t dim);

// Returns the number of rows before the first -1. INVALID_ARGUMENT, naming the position: rows do
// not ascend, are outside [0, height), or follow a -1.
StatusOr<int64_t> CheckSparseRows(std::span<const int64_t> rows, int64_t height);

// Rows of a large matrix are accessed in the order of ids. Prefetching this many rows ahead hides
// the memory latency.
inline constexpr int64_t kRowsAhead = 16;

inline void PrefetchRow(const float* row, int64_t dim) {
  constexpr int64_t kLine = 64 / sizeof(float);
  for (int64_t i = 0; i < dim; i += kLine) PrefetchLine(row + i);
}

// Returns the cost of `count` such rows (parallel.h). A short row costs as much as a cache miss.
inline int64_t RowsCost(int64_t count, int64_t dim) { return count * std::max<int64_t>(dim, 32); }

// Merges a list of (row, values) with duplicates into a sparse gradient. The values of equal rows
// are added in the order of the list, beginning with 0. The bits are those of a dense gradient.
class RowMerger {
 public:
  // For at most `count` rows of `dim` values of a variable with `height` rows; uses `parts`
  // threads. REQUIRES: height and count are below 2^32.
  RowMerger(int64_t count, int64_t height, int64_t dim, int parts)
      : count_(count), height_(height), dim_(dim), parts_(parts) {}

  size_t scratch_bytes() const;
  // Begins a list. `scratch` is used until Finish.
  void Begin(void* scratch);
  // REQUIRES: row is in [0, height), and fewer than `count` rows were added. `values` must not
  // change until Finish.
  void Add(int64_t row, const float* values);
  // Writes n rows. n is the size of the outputs.
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

}  // namespace tandem
