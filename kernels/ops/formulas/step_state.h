// Formulas for states of one element that change from step to step. The rules are described at the
// operators update_loss_scaling (loss_scaling.cc), every_nth (every_nth.cc) and adaptive_steps
// (adaptive_steps.cc).
#pragma once

#include <cmath>

#include "kernels/ops/core/op.h"
#include "kernels/ops/formulas/host_device.h"

namespace tandem::ops {
namespace {

struct LossScaling {
  // good: number of consecutive steps with finite gradients. bad: number of consecutive steps with
  // infinite or NaN gradients.
  float scale, good, bad;
};

struct LossScalingRule {
  float incr_every, decr_every, incr_ratio, decr_ratio;

  TD_HD LossScaling Next(bool finite, LossScaling s) const {
    s.good = finite ? s.good + 1.0f : 0.0f;
    s.bad = finite ? 0.0f : s.bad + 1.0f;
    if (s.good >= incr_every) {
      s.good = 0.0f;
      const float larger = s.scale * incr_ratio;
      if (larger - larger == 0.0f) s.scale = larger;  // `larger` is finite
    }
    if (s.bad >= decr_every) {
      s.bad = 0.0f;
      const float smaller = s.scale * decr_ratio;
      s.scale = smaller < 1.0f ? 1.0f : smaller;
    }
    return s;
  }
};

struct EveryNth {
  float counter;
  bool due;

  static TD_HD EveryNth Next(float before, float n) {
    const float count = before + 1.0f;
    return {count >= n ? 0.0f : count, before < 0.0f || count >= n};
  }
};

struct AdaptiveSteps {
  double base_loss, base_rate, steps;
};

struct AdaptiveStepsRule {
  double first, most;

  TD_HD AdaptiveSteps Next(double loss, double rate, AdaptiveSteps s) const {
    const bool finite = loss - loss == 0 && rate - rate == 0;
    if (finite && loss > 0 && rate > 0 && (s.base_loss == 0 || s.base_rate == 0)) {
      s.base_loss = loss;
      s.base_rate = rate;
    }
    const double next = ceil(sqrt(s.base_rate * loss / (rate * s.base_loss) * first));
    if (next == next) s.steps = next < 1 ? 1 : next > most ? most : next;
    return s;
  }
};

inline AdaptiveStepsRule AdaptiveStepsRuleOf(const OpView& view) {
  return {static_cast<double>(view.attr<int64_t>("init_k_steps")),
          static_cast<double>(view.attr<int64_t>("k_steps_max"))};
}

inline LossScalingRule LossScalingRuleOf(const OpView& view) {
  return {static_cast<float>(view.attr<int64_t>("incr_every_n_steps")),
          static_cast<float>(view.attr<int64_t>("decr_every_n_nan_or_inf")),
          static_cast<float>(view.attr<double>("incr_ratio")),
          static_cast<float>(view.attr<double>("decr_ratio"))};
}

}  // namespace
}  // namespace tandem::ops
