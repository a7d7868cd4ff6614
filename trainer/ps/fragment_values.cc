#include "trainer/ps/fragment_values.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tandem::trainer {

FragmentValues::FragmentValues(std::vector<ps::PsTensor> local) : local_(std::move(local)) {
  for (const ps::PsTensor& t : local_) base_.emplace_back(t.data, t.data + t.numel);
  delta_ = known_ = pulled_ = base_;
}

std::vector<ps::PsConstTensor> FragmentValues::PseudoGradients() {
  std::vector<ps::PsConstTensor> gradients;
  for (size_t i = 0; i < local_.size(); ++i) {
    const float* const local = local_[i].data;
    for (size_t e = 0; e < base_[i].size(); ++e) {
      delta_[i][e] = base_[i][e] - local[e];
      base_[i][e] = local[e];
    }
    gradients.push_back({local_[i].variable, delta_[i].data(), local_[i].numel});
  }
  return gradients;
}

std::vector<ps::PsTensor> FragmentValues::Pulled() {
  std::vector<ps::PsTensor> pulled = local_;
  for (size_t i = 0; i < pulled.size(); ++i) pulled[i].data = pulled_[i].data();
  return pulled;
}

bool FragmentValues::Take() {
  bool all = true;
  for (size_t i = 0; i < local_.size(); ++i) {
    float* const local = local_[i].data;
    bool changed = base_[i].empty();
    for (size_t e = 0; e < base_[i].size(); ++e) {
      const float now = pulled_[i][e];
      if (now == known_[i][e]) continue;
      const float moved = local[e] - base_[i][e];
      local[e] = std::isfinite(moved) ? now + moved : now;
      base_[i][e] = known_[i][e] = now;
      changed = true;
    }
    all = all && changed;
  }
  return all;
}

void FragmentValues::TakeAll() {
  for (size_t i = 0; i < local_.size(); ++i) std::ranges::copy(pulled_[i], local_[i].data);
  base_ = known_ = pulled_;
}

}  // namespace tandem::trainer
