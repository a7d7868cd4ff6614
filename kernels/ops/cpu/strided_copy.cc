#include "kernels/ops/cpu/strided_copy.h"

#include <cstring>

#include "common/base/require.h"
#include "kernels/ops/cpu/parallel.h"

namespace tandem::ops {
namespace {

template <typename T>
void CopyRow(const void* from, int64_t from_stride, void* to, int64_t to_stride, int64_t n) {
  const T* source = static_cast<const T*>(from);
  T* target = static_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) target[i * to_stride] = source[i * from_stride];
}

}  // namespace

Strides RowMajor(const Shape& shape) {
  Strides strides{};
  int64_t step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[static_cast<size_t>(d)] = step;
    step *= shape[d];
  }
  return strides;
}

StridedCopy::StridedCopy(const Shape& dims, const Strides& from, const Strides& to,
                         size_t element_bytes)
    : element_bytes_(element_bytes) {
  TD_REQUIRE(element_bytes > 0);
  for (int d = 0; d < dims.rank(); ++d) {
    if (dims[d] == 1) continue;
    const auto at = static_cast<size_t>(d);
    const auto last = static_cast<size_t>(std::max(rank_ - 1, 0));
    if (rank_ > 0 && from_[last] == from[at] * dims[d] && to_[last] == to[at] * dims[d]) {
      dims_[last] *= dims[d];
      from_[last] = from[at];
      to_[last] = to[at];
      continue;
    }
    const auto next = static_cast<size_t>(rank_++);
    dims_[next] = dims[d];
    from_[next] = from[at];
    to_[next] = to[at];
  }
  if (rank_ == 0) {
    rank_ = 1;
    dims_[0] = from_[0] = to_[0] = 1;
  }
  for (int d = 0; d + 1 < rank_; ++d) rows_ *= dims_[static_cast<size_t>(d)];
  TD_REQUIRE(rank_ >= 1 && rows_ * dims_[static_cast<size_t>(rank_ - 1)] == dims.numel());
}

void StridedCopy::RunRows(const std::byte* from, std::byte* to, int64_t begin, int64_t end) const {
  const auto row = static_cast<size_t>(rank_ - 1);
  for (int64_t r = begin; r < end; ++r) {
    int64_t rest = r, at_from = 0, at_to = 0;
    for (size_t d = row; d-- > 0;) {
      const int64_t index = rest % dims_[d];
      rest /= dims_[d];
      at_from += index * from_[d];
      at_to += index * to_[d];
    }
    const std::byte* source = from + static_cast<size_t>(at_from) * element_bytes_;
    std::byte* target = to + static_cast<size_t>(at_to) * element_bytes_;
    if (from_[row] == 1 && to_[row] == 1) {
      std::memcpy(target, source, static_cast<size_t>(dims_[row]) * element_bytes_);
      continue;
    }
    const auto copy = element_bytes_ == 8   ? CopyRow<uint64_t>
                      : element_bytes_ == 4 ? CopyRow<uint32_t>
                      : element_bytes_ == 2 ? CopyRow<uint16_t>
                                            : CopyRow<uint8_t>;
    copy(source, from_[row], target, to_[row], dims_[row]);
  }
}

void StridedCopy::Run(const void* from, void* to, int threads) const {
  const int64_t n = dims_[static_cast<size_t>(rank_ - 1)];
  if (rows_ * n == 0) return;
  ParallelFor(PartsFor(threads, rows_ * n / 2), rows_, [&](int, int64_t begin, int64_t end) {
    RunRows(static_cast<const std::byte*>(from), static_cast<std::byte*>(to), begin, end);
  });
}

}  // namespace tandem::ops
