// Copies between tensors whose elements lie in another order: what transpose, concat, split and
// slice are made of.
#pragma once

#include <array>
#include <cstddef>

#include "common/tensor/types.h"

namespace tandem {

// Distances of neighbours along each dimension, in elements.
using Strides = std::array<int64_t, Shape::kRankMax>;
Strides RowMajor(const Shape& shape);

class StridedCopy {
 public:
  // Element (i, j, ...) of `dims` is at i from[0] + j from[1] + ... on one side, and so on the
  // other. `element_bytes` is 1, 2, 4 or 8.
  StridedCopy(const Shape& dims, const Strides& from, const Strides& to, size_t element_bytes);

  // Sides may not overlap. On `threads` threads at most, where it is worth it.
  void Run(const void* from, void* to, int threads) const;

  // For other kinds of kernels: the same copy over the dimensions that are left.
  int rank() const { return rank_; }
  const std::array<int64_t, Shape::kRankMax>& dims() const { return dims_; }
  const Strides& from() const { return from_; }
  const Strides& to() const { return to_; }
  size_t element_bytes() const { return element_bytes_; }

 private:
  void RunRows(const std::byte* from, std::byte* to, int64_t begin, int64_t end) const;

  // Without dimensions of one element, and with those joined that are one on both sides; the last
  // is the row that is copied at once.
  int rank_ = 0;
  std::array<int64_t, Shape::kRankMax> dims_{};
  Strides from_{}, to_{};
  int64_t rows_ = 1;
  size_t element_bytes_;
};

}  // namespace tandem
