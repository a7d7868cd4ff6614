#include "trainer/monitoring/training_curves.h"

#include "common/base/check.h"
#include "common/base/require.h"

namespace tandem::trainer {

void Curve::Add(double x, double y) {
  newest_ = {x, y};
  if (added_++ % stride_ != 0) return;
  if (points_.size() == kPointsMax) {
    size_t kept = 0;
    for (size_t i = 0; i < points_.size(); i += 2) points_[kept++] = points_[i];
    points_.resize(kept);
    stride_ *= 2;
    if ((added_ - 1) % stride_ != 0) return;
  }
  DCHECK_LT(points_.size(), kPointsMax);
  points_.push_back(newest_);
}

std::vector<std::pair<double, double>> Curve::Points() const {
  std::vector<std::pair<double, double>> points = points_;
  if (added_ > 0 && points.back().first != newest_.first) points.push_back(newest_);
  return points;
}

void TrainingCurves::AddRun(int64_t steps, double seconds) {
  TD_REQUIRE(steps > 0);
  steps_ += steps;
  seconds_ += seconds;
}

std::optional<double> TrainingCurves::AddLoss(double x, double loss, double metric,
                                              int64_t samples_per_step) {
  losses_.Add(x, loss);
  metrics_.Add(x, metric);
  const auto samples = static_cast<double>(std::exchange(steps_, 0) * samples_per_step);
  const double seconds = std::exchange(seconds_, 0);
  if (seconds <= 0) return {};
  speeds_.Add(x, samples / seconds);
  return samples / seconds;
}

std::vector<http::StatusSeries> TrainingCurves::Series(const std::string& metric) const {
  std::vector<http::StatusSeries> series = {{"training loss", "step", losses_.Points()},
                                            {"samples per second", "step", speeds_.Points()}};
  if (metric.empty()) return series;
  series.push_back({"training " + metric, "step", metrics_.Points()});
  series.push_back({"test " + metric, "step", evaluations_.Points()});
  return series;
}

}  // namespace tandem::trainer
