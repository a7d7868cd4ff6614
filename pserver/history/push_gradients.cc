#include "pserver/history/push_gradients.h"

#include <algorithm>
#include <cmath>

#include "common/base/require.h"

namespace tandem::pserver {
namespace {

// Returns the position of the ids of a table in PushHead::slices; nullopt: the push has no rows of
// the table. The values of the rows are at the next position.
std::optional<size_t> FindTable(const PushRecord& push, const std::string& table) {
  for (size_t i = 0; i + 1 < push.head.slices.size() && i + 1 < push.values.size(); ++i) {
    const PushHead::Slice &ids = push.head.slices[i], &values = push.head.slices[i + 1];
    if (ids.variable == table && ids.desc.dtype == DType::kI64 && values.variable == table) {
      return i;
    }
  }
  return std::nullopt;
}

std::span<const uint64_t> IdsAt(const PushRecord& push, size_t i) {
  TD_REQUIRE(i < push.head.slices.size() && i < push.values.size());
  return {reinterpret_cast<const uint64_t*>(push.values[i].get()),
          static_cast<size_t>(push.head.slices[i].desc.shape.numel())};
}

double SumOfSquares(const float* values, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(values[i]) * values[i];
  return sum;
}

}  // namespace

std::span<const uint64_t> RowsIn(const PushRecord& push, const std::string& table) {
  const std::optional<size_t> at = FindTable(push, table);
  return at ? IdsAt(push, *at) : std::span<const uint64_t>();
}

std::optional<double> RowGradientNorm(const PushRecord& push, const std::string& table, uint64_t id,
                                      int64_t dim) {
  const std::optional<size_t> at = FindTable(push, table);
  if (!at) return std::nullopt;
  const std::span<const uint64_t> ids = IdsAt(push, *at);
  const auto found = std::ranges::lower_bound(ids, id);
  if (found == ids.end() || *found != id) return std::nullopt;
  const TensorDesc& values = push.head.slices[*at + 1].desc;
  TD_REQUIRE(!ids.empty() && values.dtype == DType::kF32);
  const int64_t width = values.shape.numel() / static_cast<int64_t>(ids.size());
  const int64_t counts = std::max<int64_t>(width - dim, 0);
  const auto* const row = reinterpret_cast<const float*>(push.values[*at + 1].get()) +
                          (found - ids.begin()) * width + counts;
  return std::sqrt(SumOfSquares(row, width - counts));
}

std::optional<double> VariableGradientNorm(const PushRecord& push, const std::string& variable) {
  double sum = 0;
  bool found = false;
  for (size_t i = 0; i < push.head.slices.size() && i < push.values.size(); ++i) {
    const PushHead::Slice& slice = push.head.slices[i];
    if (slice.variable != variable || slice.desc.dtype != DType::kF32) continue;
    found = true;
    sum += SumOfSquares(reinterpret_cast<const float*>(push.values[i].get()),
                        slice.desc.shape.numel());
  }
  return found ? std::optional(std::sqrt(sum)) : std::nullopt;
}

}  // namespace tandem::pserver
