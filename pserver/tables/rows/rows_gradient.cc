#include "pserver/tables/rows/rows_gradient.h"

#include <algorithm>
#include <utility>

#include "common/base/require.h"

namespace tandem::pserver {

RowsGradient RowsGradientMerger::Sum(std::span<const RowsGradient> gradients) {
  if (gradients.size() == 1) return gradients[0];
  ids_.clear();
  values_.clear();
  std::vector<size_t> next(gradients.size(), 0);
  while (true) {
    uint64_t id = UINT64_MAX;  // higher than the id of any row
    for (size_t r = 0; r < gradients.size(); ++r) {
      if (next[r] < gradients[r].ids.size()) id = std::min(id, gradients[r].ids[next[r]]);
    }
    if (id == UINT64_MAX) break;
    TD_REQUIRE(ids_.empty() || ids_.back() < id);
    ids_.push_back(id);
    const size_t begin = values_.size();
    for (size_t r = 0; r < gradients.size(); ++r) {
      if (next[r] == gradients[r].ids.size() || gradients[r].ids[next[r]] != id) continue;
      const float* g = gradients[r].values + next[r]++ * width_;
      if (values_.size() == begin) {
        values_.insert(values_.end(), g, g + width_);
      } else {
        for (size_t c = 0; c < width_; ++c) values_[begin + c] += g[c];
      }
    }
  }
  return {ids_, values_.data()};
}

RowsGradient RowsGradientMerger::Select(const RowsGradient& gradient,
                                        const std::vector<bool>& wanted) {
  TD_REQUIRE(wanted.size() == gradient.ids.size());
  std::vector<uint64_t> ids;
  std::vector<float> values;
  for (size_t i = 0; i < gradient.ids.size(); ++i) {
    if (!wanted[i]) continue;
    const float* const g = gradient.values + i * width_;
    ids.push_back(gradient.ids[i]);
    values.insert(values.end(), g, g + width_);
  }
  ids_ = std::move(ids);
  values_ = std::move(values);
  return {ids_, values_.data()};
}

}  // namespace tandem::pserver
