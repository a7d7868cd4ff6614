// The formula of sigmoid_cross_entropy (sigmoid_xent.cc) for one element.
#pragma once

#include <cmath>

#include "kernels/ops/formulas/host_device.h"

namespace tandem::ops {
namespace {

struct SigmoidXent {
  float sigmoid, loss;

  // Returns sigmoid(x) and the loss. No x causes an overflow, because exp is applied only to -|x|.
  static TD_HD SigmoidXent Of(float x, bool label) {
    const float e = expf(-fabsf(x));
    return {(x >= 0.0f ? 1.0f : e) / (1.0f + e),
            (x > 0.0f ? x : 0.0f) - (label ? x : 0.0f) + log1pf(e)};
  }
  static TD_HD float Grad(float sigmoid, bool label, float g) {
    return (sigmoid - (label ? 1.0f : 0.0f)) * g;
  }
};

}  // namespace
}  // namespace tandem::ops
