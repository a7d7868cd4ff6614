// Gradients of rows: the contents of a push to a table, and the sum of the pushes of a step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "pserver/state/buffer_pool.h"

namespace tandem::pserver {

// The rows of one push to a table, with ascending ids. Each row has its counts
// (RowAccessor::counts), followed by dim values.
struct RowsGradient {
  std::span<const uint64_t> ids;
  const float* values = nullptr;
};

// The two tensors of a push to one table.
struct PushedRows {
  Buffer ids;     // row ids, i64 [count]
  Buffer values;  // values of the rows as in RowsGradient, f32 [count, width]
  size_t count = 0;
  RowsGradient view() const {
    return {{reinterpret_cast<const uint64_t*>(ids.get()), count},
            reinterpret_cast<const float*>(values.get())};
  }
};

// Sums and filters gradients. A result is one of the arguments, or is in memory of this object and
// valid until the next call. Not thread-safe.
class RowsGradientMerger {
 public:
  // `width`: number of values of each row of a gradient.
  explicit RowsGradientMerger(int64_t width) : width_(static_cast<size_t>(width)) {}

  size_t width() const { return width_; }
  // Returns the sum of `gradients` per id, with ascending ids. Adds the gradients in their given
  // order.
  RowsGradient Sum(std::span<const RowsGradient> gradients);
  // Returns each row i of `gradient` for which wanted[i] is true. `gradient` may be a result of
  // Sum. REQUIRES: `wanted` has an entry for each row.
  RowsGradient Select(const RowsGradient& gradient, const std::vector<bool>& wanted);

 private:
  const size_t width_;
  std::vector<uint64_t> ids_;
  std::vector<float> values_;
};

}  // namespace tandem::pserver
