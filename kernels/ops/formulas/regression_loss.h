// Formulas of the regression losses for one element x with the target y. The operators are in
// kernels/ops/reduce/regression_loss.cc.
#pragma once

#include <cmath>

#include "kernels/ops/formulas/host_device.h"

namespace tandem::ops {
namespace {

struct SquareErrorLoss {
  static TD_HD float Of(float x, float y, float) { return (x - y) * (x - y); }
  static TD_HD float Grad(float x, float y, float g, float) { return 2.0f * (x - y) * g; }
};

// Source: P. J. Huber, "Robust Estimation of a Location Parameter", 1964.
struct HuberLoss {
  static TD_HD float Of(float x, float y, float delta) {
    const float d = fabsf(x - y);
    return d <= delta ? 0.5f * d * d : delta * (d - 0.5f * delta);
  }
  static TD_HD float Grad(float x, float y, float g, float delta) {
    const float d = x - y;
    return (d > delta ? delta : d < -delta ? -delta : d) * g;
  }
};

struct AbsoluteErrorLoss {
  static TD_HD float Of(float x, float y, float) { return fabsf(x - y); }
  static TD_HD float Grad(float x, float y, float g, float) {
    return x > y ? g : x < y ? -g : 0.0f;
  }
};

}  // namespace
}  // namespace tandem::ops
