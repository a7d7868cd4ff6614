// The curves of a training run: loss, metric and speed over the steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/http/status_page.h"

namespace tandem::trainer {

// A curve of bounded size. When the curve is full, it drops every second point, and from then on
// keeps only every second new point. The newest point is always in the curve.
class Curve {
 public:
  static constexpr size_t kPointsMax = 1024;
  void Add(double x, double y);
  std::vector<std::pair<double, double>> Points() const;

 private:
  std::vector<std::pair<double, double>> points_;
  std::pair<double, double> newest_;
  uint64_t added_ = 0, stride_ = 1;
};

// The curves of one run. Not thread-safe.
class TrainingCurves {
 public:
  // Adds a run of `steps` steps, which took `seconds` without waiting for data.
  void AddRun(int64_t steps, double seconds);
  // Adds loss and metric of the training step `x` to their curves. Returns the speed of the steps
  // since the previous call, in samples per second; nullopt: there were no such steps.
  std::optional<double> AddLoss(double x, double loss, double metric, int64_t samples_per_step);
  void AddEvaluation(double x, double metric) { evaluations_.Add(x, metric); }
  // Returns all curves with their names. `metric`: name of the metric; "": the job has no metric.
  std::vector<http::StatusSeries> Series(const std::string& metric) const;

 private:
  Curve losses_, metrics_, speeds_, evaluations_;
  int64_t steps_ = 0;   // steps since the last point of the speed curve
  double seconds_ = 0;  // duration of `steps_` in seconds
};

}  // namespace tandem::trainer
