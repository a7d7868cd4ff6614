// Copies between tensors with different element orders, for transpose, concat, split and slice.
#pragma once

#include <array>
#include <cstddef>

#include "common/tensor/types.h"

namespace tandem::ops {

// For each dimension: the distance in elements between two neighbours along the dimension.
using Strides = std::array<int64_t, Shape::kRankMax>;
Strides RowMajor(const Shape& shape);

class StridedCopy {
 public:
  // Prepares a copy of `dims` elements. Element (i, j, ...) is at offset i from[0] + j from[1] +
  // ... of the source, and at i to[0] + j to[1] + ... of the destination. `element_bytes` is 1, 2,
  // 4 or 8.
  StridedCopy(const Shape& dims, const Strides& from, const Strides& to, size_t element_bytes);

  // Copies all elements, on up to `threads` threads if there are enough elements. Source and
  // destination must not overlap.
  void Run(const void* from, void* to, int threads) const;

  // The simplified dimensions and strides of the copy, for kernels on other devices.
  int rank() const { return rank_; }
  const std::array<int64_t, Shape::kRankMax>& dims() const { return dims_; }
  const Strides& from() const { return from_; }
  const Strides& to() const { return to_; }
  size_t element_bytes() const { return element_bytes_; }

 private:
  void RunRows(const std::byte* from, std::byte* to, int64_t begin, int64_t end) const;

  // The simplified dimensions: dimensions of one element are omitted, and dimensions that are
  // contiguous in source and destination are merged. The last dimension is a row, which is copied
  // at once.
  int rank_ = 0;
  std::array<int64_t, Shape::kRankMax> dims_{};
  Strides from_{}, to_{};
  int64_t rows_ = 1;
  size_t element_bytes_;
};

}  // namespace tandem::ops
