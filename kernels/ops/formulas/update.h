// The formulas of the optimizers for one element. The operators' definitions (sgd.cc, adam.cc, ...)
// name the sources of the formulas. Step() replaces an element of a parameter and of its slots by
// the values of the next step. Begin() computes the arguments that change from step to step.
#pragma once

#include "kernels/ops/formulas/host_device.h"
#include "kernels/ops/formulas/update_args.h"

namespace tandem::ops {
namespace {

struct UpdateElement {
  float p, g;
  float s[kUpdateSlotsMax];
};

struct SgdStep {
  static constexpr int kSlots = 0;
  static TD_HD void Step(const UpdateArgs& a, UpdateElement& e) { e.p = e.p - a.lr * e.g; }
};

template <bool nesterov>
struct MomentumStep {
  static constexpr int kSlots = 1;
  static TD_HD void Step(const UpdateArgs& a, UpdateElement& e) {
    const float velocity = a.mu * e.s[0] + e.g;
    e.p = nesterov ? e.p - a.lr * (e.g + a.mu * velocity) : e.p - a.lr * velocity;
    e.s[0] = velocity;
  }
};

// Computes both moments of Adam or LAMB for the next step.
TD_HD void AdvanceMoments(const UpdateArgs& a, UpdateElement& e) {
  e.s[0] = a.beta1 * e.s[0] + (1.0f - a.beta1) * e.g;
  e.s[1] = a.beta2 * e.s[1] + (1.0f - a.beta2) * (e.g * e.g);
}

struct AdamStep {
  static constexpr int kSlots = 2;
  // Computes the factors of an Adam step from the current powers of beta1 and beta2.
  static TD_HD void Begin(float lr, float power1, float power2, UpdateArgs& a) {
    const float root = __builtin_sqrtf(1.0f - power2);
    a.lr = lr * root / (1.0f - power1);
    a.epsilon = a.epsilon * root;
    a.keep = 1.0f - lr * a.weight_decay;
  }
  static TD_HD void Step(const UpdateArgs& a, UpdateElement& e) {
    AdvanceMoments(a, e);
    e.p = e.p * a.keep - a.lr * e.s[0] / (__builtin_sqrtf(e.s[1]) + a.epsilon);
  }
};

struct AdagradStep {
  static constexpr int kSlots = 1;
  static TD_HD void Step(const UpdateArgs& a, UpdateElement& e) {
    e.s[0] = e.s[0] + e.g * e.g;
    e.p = e.p - a.lr * e.g / (__builtin_sqrtf(e.s[0]) + a.epsilon);
  }
};

struct DecayedAdagradStep {
  static constexpr int kSlots = 1;
  static TD_HD void Step(const UpdateArgs& a, UpdateElement& e) {
    e.s[0] = a.decay * e.s[0] + (1.0f - a.decay) * (e.g * e.g);
    e.p = e.p - a.lr * e.g / (__builtin_sqrtf(e.s[0]) + a.epsilon);
  }
};

struct AdamaxStep {
  static constexpr int kSlots = 2;
  static TD_HD void Begin(float lr, float power, UpdateArgs& a) { a.lr = lr / (1.0f - power); }
  static TD_HD void Step(const UpdateArgs& a, UpdateElement& e) {
    const float size = __builtin_fabsf(e.g), decayed = a.beta2 * e.s[1] + a.epsilon;
    e.s[0] = a.beta1 * e.s[0] + (1.0f - a.beta1) * e.g;
    e.s[1] = size > decayed ? size : decayed;
    e.p = e.p - a.lr * e.s[0] / e.s[1];
  }
};

// The slots are the running mean of the squared gradient, the velocity and, if `centered`, the
// running mean of the gradient.
template <bool centered>
struct RmspropStep {
  static constexpr int kSlots = centered ? 3 : 2;
  static TD_HD void Step(const UpdateArgs& a, UpdateElement& e) {
    const float rest = 1.0f - a.decay;
    e.s[0] = a.decay * e.s[0] + rest * (e.g * e.g);
    float variance = e.s[0];
    if (centered) {
      e.s[2] = a.decay * e.s[2] + rest * e.g;
      const float difference = e.s[0] - e.s[2] * e.s[2];
      variance = difference > 0.0f ? difference : 0.0f;
    }
    e.s[1] = a.mu * e.s[1] + a.lr * e.g / __builtin_sqrtf(variance + a.epsilon);
    e.p = e.p - e.s[1];
  }
};

struct FtrlStep {
  static constexpr int kSlots = 2;
  static TD_HD void Step(const UpdateArgs& a, UpdateElement& e) {
    const float sum = e.s[0] + e.g * e.g;
    const float root = __builtin_sqrtf(sum);
    const float linear = e.s[1] + e.g - (root - __builtin_sqrtf(e.s[0])) / a.lr * e.p;
    const float pull = (linear > 0.0f ? a.l1 : -a.l1) - linear;
    const float scale = root / a.lr + 2.0f * a.l2;
    e.p = __builtin_fabsf(linear) > a.l1 ? pull / scale : 0.0f;
    e.s[0] = sum;
    e.s[1] = linear;
  }
};

struct LarsStep {
  static constexpr int kSlots = 1;
  // Computes the learning rate of a parameter from `lr` and `coeff`. p: norm of the parameter. g:
  // norm of its gradient.
  static TD_HD void Begin(float lr, float coeff, float p, float g, UpdateArgs& a) {
    a.lr = lr;
    if (a.weight_decay > 0 && p > 0 && g > 0) {
      a.lr = a.lr * coeff * p / (g + a.weight_decay * p + a.epsilon);
    }
  }
  static TD_HD void Step(const UpdateArgs& a, UpdateElement& e) {
    e.s[0] = a.mu * e.s[0] + a.lr * (e.g + a.weight_decay * e.p);
    e.p = e.p - e.s[0];
  }
};

// The first half of a LAMB step. Writes the direction of the step to e.p, not the updated
// parameter. Here a.lr and a.keep are the bias corrections of the two moments, which start at 0.
struct LambStep {
  static constexpr int kSlots = 2;
  static TD_HD void Begin(float power1, float power2, UpdateArgs& a) {
    a.lr = 1.0f / (1.0f - power1);
    a.keep = 1.0f / (1.0f - power2);
  }
  static TD_HD void Step(const UpdateArgs& a, UpdateElement& e) {
    AdvanceMoments(a, e);
    const float size = __builtin_sqrtf(e.s[1] * a.keep) + a.epsilon;
    e.p = e.s[0] * a.lr / size + a.weight_decay * e.p;
  }
  // Returns the factor by which the direction is subtracted from the parameter. `p`, `direction`:
  // 2-norms of the parameter and of the direction.
  static TD_HD float Rate(float lr, float p, float direction) {
    return lr * (p > 0 && direction > 0 ? p / direction : 1.0f);
  }
};

// Adds the derivatives of the penalties to a gradient: g + l2 p + l1 sign(p).
struct Regularize {
  static TD_HD float Of(float p, float g, float l1, float l2) {
    const float sign = (p > 0.0f ? l1 : 0.0f) - (p < 0.0f ? l1 : 0.0f);
    return g + l2 * p + sign;
  }
};

// Limits x to [low, high]. NaN stays NaN.
struct Clip {
  static TD_HD float Of(float x, float low, float high) {
    return x < low ? low : x > high ? high : x;
  }
};

}  // namespace
}  // namespace tandem::ops
