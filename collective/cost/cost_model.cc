#include "collective/cost/cost_model.h"

#include <algorithm>

#include "common/base/check.h"

namespace tandem::collective {

CostModel CostModel::For(size_t buffer_bytes) const {
  CostModel model = *this;
  model.far = {};
  if (far.near_bytes == 0 || buffer_bytes <= far.near_bytes) return model;
  const double near = static_cast<double>(far.near_bytes) / static_cast<double>(buffer_bytes);
  model.thread.byte = near * thread.byte + (1 - near) * far.byte;
  model.thread.add_byte = near * thread.add_byte + (1 - near) * far.add_byte;
  return model;
}

double PiecewiseLinearCost::Seconds(size_t bytes) const {
  CHECK_GE(points.size(), 2u);
  size_t next = 1;
  while (next + 1 < points.size() && points[next].first < bytes) ++next;
  const auto& [from, at_from] = points[next - 1];
  const auto& [to, at_to] = points[next];
  const double slope = (at_to - at_from) / static_cast<double>(to - from);
  // On a busy machine the smaller size may have taken longer, so a negative slope counts as 0. The
  // line may also be negative at 0 bytes. The result is therefore at least proportional to the
  // bytes: half of the bytes take at least half of the time, because the time to start a call is
  // never negative.
  const double rise = std::max(0.0, slope);
  if (bytes < from) {
    const double share = at_from * static_cast<double>(bytes) / static_cast<double>(from);
    return std::max(share, at_from - rise * static_cast<double>(from - bytes));
  }
  return at_from + rise * static_cast<double>(bytes - from);
}

}  // namespace tandem::collective
