// Sparse gradients in a program (Paddle's SelectedRows). The gradient of a variable [height, dim]
// is a pair of variables of fixed size:
//   Rows   i64 [n]       row numbers, ascending, without duplicates; then -1 up to n
//   Values f32 [n, dim]  the values of these rows; zeros where Rows is -1
// All other rows of the gradient are 0. n is the largest possible number of rows. n never depends
// on data, so the memory of a plan is fixed.
#pragma once

#include <algorithm>
#include <span>

#include "common/base/prefetch.h"
#include "kernels/ops/core/op.h"

namespace tandem::ops {

// Checks that inputs `values` and `rows` of `view` are the pair of a sparse gradient for a variable
// [height, dim]. `dim` -1: any dim. INVALID_ARGUMENT: the inputs are not such a pair.
Status NeedSparseRows(const OpView& view, size_t values, size_t rows, int64_t dim);

// Returns the number of row numbers before the first -1. INVALID_ARGUMENT, naming the position: row
// numbers do not ascend, are outside [0, height), or follow a -1.
StatusOr<int64_t> CheckSparseRows(std::span<const int64_t> rows, int64_t height);

// Prefetch distance in rows. Rows of a large matrix are accessed in the order of ids, so
// prefetching hides the memory latency.
inline constexpr int64_t kRowsAhead = 16;

inline void PrefetchRow(const float* row, int64_t dim) {
  constexpr int64_t kLine = 64 / sizeof(float);
  for (int64_t i = 0; i < dim; i += kLine) PrefetchLine(row + i);
}

// Returns the cost of accessing `count` rows of `dim` elements, for PartsFor (parallel.h). A short
// row costs as much as a cache miss.
inline int64_t RowsCost(int64_t count, int64_t dim) { return count * std::max<int64_t>(dim, 32); }

}  // namespace tandem::ops
