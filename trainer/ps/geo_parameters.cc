#include "trainer/ps/geo_parameters.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/require.h"

namespace tandem::trainer {

GeoParameters::GeoParameters(std::vector<ps::PsTensor> local, int trainers)
    : local_(std::move(local)), share_(1.0f / static_cast<float>(trainers)) {
  TD_REQUIRE(trainers > 0);
  for (const ps::PsTensor& t : local_) base_.emplace_back(t.data, t.data + t.numel);
  delta_ = pulled_ = base_;
}

std::vector<ps::PsConstTensor> GeoParameters::Differences() {
  std::vector<ps::PsConstTensor> differences;
  for (size_t i = 0; i < local_.size(); ++i) {
    const float* const local = local_[i].data;
    for (size_t e = 0; e < base_[i].size(); ++e) {
      delta_[i][e] = (local[e] - base_[i][e]) * share_;
      base_[i][e] += delta_[i][e];
    }
    differences.push_back({local_[i].variable, delta_[i].data(), local_[i].numel});
  }
  return differences;
}

std::vector<ps::PsTensor> GeoParameters::Pulled() {
  std::vector<ps::PsTensor> pulled = local_;
  for (size_t i = 0; i < pulled.size(); ++i) pulled[i].data = pulled_[i].data();
  return pulled;
}

void GeoParameters::Take() {
  DCHECK_EQ(pulled_.size(), local_.size());
  for (size_t i = 0; i < local_.size(); ++i) {
    float* const local = local_[i].data;
    for (size_t e = 0; e < base_[i].size(); ++e) local[e] += pulled_[i][e] - base_[i][e];
  }
  std::swap(base_, pulled_);
}

}  // namespace tandem::trainer
