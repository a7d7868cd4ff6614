// Gradients of rows: what a push to a table has, and how the pushes of a step are summed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pserver/state/buffer_pool.h"

namespace tandem::pserver {

// Rows of one push: ascending ids. Each row has its counts (RowAccessor::counts), then dim values.
struct RowsGradient {
  std::span<const uint64_t> ids;
  const float* values = nullptr;
};

// The two tensors of a push to one table.
struct PushedRows {
  Buffer ids;     // i64 [count]
  Buffer values;  // f32 [count, dim]
  size_t count = 0;
  RowsGradient view() const {
    return {{reinterpret_cast<const uint64_t*>(ids.get()), count},
            reinterpret_cast<const float*>(values.get())};
  }
};

// Sums and filters gradients. A result is one of the arguments, or in the memory of this and valid
// until the next call. Not thread-safe.
class RowsGradientMerger {
 public:
  // A row of a gradient has `width` numbers.
  explicit RowsGradientMerger(int64_t width) : width_(static_cast<size_t>(width)) {}

  size_t width() const { return width_; }
  // The sum, with ascending ids. Adds in the order of `gradients`.
  RowsGradient Sum(std::span<const RowsGradient> gradients);
  // The rows i of `gradient` with wanted[i]. `gradient` may be a result of Sum. REQUIRES: `wanted`
  // has an entry for each row.
  RowsGradient Select(const RowsGradient& gradient, const std::vector<bool>& wanted);

 private:
  const size_t width_;
  std::vector<uint64_t> ids_;
  std::vector<float> values_;
};

}  // namespace tandem::pserver
