// Copies between tensors with different element orders. transpose, concat, split and slice use it.
#pragma once

#include <array>
#include <cstddef>

#include "common/tensor/types.h"

namespace tandem {

// Distance between neighbours along each dimension, in elements.
using Strides = std::array<int64_t, Shape::kRankMax>;
Strides RowMajor(const Shape& shape);

class StridedCopy {
 public:
  // Element (i, j, ...) of `dims` is at i from[0] + j from[1] + ... in the source, and in the same
  // way with `to` in the destination. `element_bytes` is 1, 2, 4 or 8.
  StridedCopy(const Shape& dims, const Strides& from, const Strides& to, size_t element_bytes);

  // Copies. Source and destination must not overlap. Uses up to `threads` threads, as far as that
  // is worthwhile.
  void Run(const void* from, void* to, int threads) const;

  // For other kinds of kernels: the same copy over the simplified dimensions.
  int rank() const { return rank_; }
  const std::array<int64_t, Shape::kRankMax>& dims() const { return dims_; }
  const Strides& from() const { return from_; }
  const Strides& to() const { return to_; }
  size_t element_bytes() const { return element_bytes_; }

 private:
  void RunRows(const std::byte* from, std::byte* to, int64_t begin, int64_t end) const;

  // Dimensions without those of one element. Dimensions that are contiguous on both sides are
  // merged. The last dimension is a row that is copied at once.
  int rank_ = 0;
  std::array<int64_t, Shape::kRankMax> dims_{};
  Strides from_{}, to_{};
  int64_t rows_ = 1;
  size_t element_bytes_;
};

}  // namespace tandem
