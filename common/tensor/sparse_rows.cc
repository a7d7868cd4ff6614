#include "common/tensor/sparse_rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "common/base/require.h"

namespace tandem {

Status SparseRows::Check() const {
  if (values.shape().rank() != 2 || values.shape()[0] != static_cast<int64_t>(rows.size())) {
    return InvalidArgument("sparse rows: there are %d row ids, but the values have shape %s",
                           rows.size(), ToString(values.shape()));
  }
  for (int64_t row : rows) {
    if (row < 0 || row >= height) {
      return InvalidArgument("sparse rows: row %d is out of range, expected 0 to %d", row,
                             height - 1);
    }
  }
  return OkStatus();
}

StatusOr<SparseRows> SparseRows::Merged(Device& device) const {
  TD_RETURN_IF_ERROR(Check());
  if (values.dtype() != DType::kF32)
    return Unimplemented("sparse rows: merging rows of element type %s is not implemented",
                         Name(values.dtype()));
  std::vector<size_t> order(rows.size());
  std::iota(order.begin(), order.end(), size_t{0});
  TD_REQUIRE(values.place().kind == PlaceKind::kCpu);
  std::stable_sort(order.begin(), order.end(),
                   [this](size_t a, size_t b) { return rows[a] < rows[b]; });

  SparseRows out;
  out.height = height;
  for (size_t i : order) {
    if (out.rows.empty() || out.rows.back() != rows[i]) out.rows.push_back(rows[i]);
  }
  const int64_t width = values.shape()[1];
  TD_ASSIGN_OR_RETURN(
      out.values,
      Tensor::Make({DType::kF32, {static_cast<int64_t>(out.rows.size()), width}}, device));
  float* dst = out.values.span<float>().data();
  std::memset(dst, 0, out.values.bytes());
  const float* src = values.span<float>().data();
  size_t at = 0;
  for (size_t i : order) {
    while (out.rows[at] != rows[i]) ++at;
    for (int64_t c = 0; c < width; ++c) dst[at * width + c] += src[i * width + c];
  }
  return out;
}

}  // namespace tandem
