// The learning rate of a step (LearningRateSchedule in proto/job.proto).
//
// With W = warmup_steps and t = step - W, f(t) is the factor of the learning rate `rate` after the
// warm-up. COSINE and POLYNOMIAL stay at `end` after decay_steps.
//   step < W      rate x f(0) x step / W
//   CONSTANT      f(t) = 1
//   PIECEWISE     f(t) = value[i], i = number of boundaries <= t
//   EXPONENTIAL   f(t) = decay_rate ^ (t / decay_steps); staircase: t / decay_steps is rounded down
//   COSINE        f(t) = end + (1 - end) x (1 + cos(pi x t / decay_steps)) / 2, then end
//                 (Loshchilov and Hutter, "SGDR", ICLR 2017, without restarts)
//   POLYNOMIAL    f(t) = end + (1 - end) x (1 - t / decay_steps) ^ power, then end
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace tandem {
class LearningRateSchedule;  // message type, defined in proto/job.pb.h
}  // namespace tandem

namespace tandem::trainer {

// The schedule of one job. Immutable; thread-safe.
class LrSchedule {
 public:
  // `learning_rate`: OptimizerConfig.learning_rate. `steps_total`: number of steps of the whole job
  // (0: unknown), which replaces a decay_steps of 0. INVALID_ARGUMENT: one of the following causes;
  // the message names the field.
  // - A value is out of range.
  // - The boundaries do not ascend.
  // - The number of values is not the number of boundaries + 1.
  // - The kind of schedule does not use the field.
  // - decay_steps is needed, but it is not set and steps_total is unknown.
  static StatusOr<LrSchedule> Make(const LearningRateSchedule& config, double learning_rate,
                                   int64_t steps_total);

  // Returns the learning rate of step `step` of the job, which must be at least 0. At computes in
  // double, so the rate is identical on all machines with the same math library.
  float At(int64_t step) const;

 private:
  enum class Kind : uint8_t { kConstant, kPiecewise, kExponential, kCosine, kPolynomial };

  double Factor(int64_t t) const;

  Kind kind_ = Kind::kConstant;
  double learning_rate_ = 0;
  int64_t warmup_steps_ = 0;
  int64_t decay_steps_ = 1;
  double decay_rate_ = 1, end_ = 0, power_ = 1;
  bool staircase_ = false;
  std::vector<int64_t> boundaries_;
  std::vector<double> values_;
};

}  // namespace tandem::trainer
