// Formulas of activations and pairwise arithmetic, for one element. activation.cc, relu.cc and
// elementwise.cc define the operators. The formula of a gradient has the arguments of the gradient
// operator: the result or the input of the function, and the gradient of the result.
#pragma once

#include "kernels/ops/formulas/exp.h"

namespace tandem::ops {
namespace {

struct Relu {
  static TD_HD float Of(float x) { return 0.0f > x ? 0.0f : x; }
};
struct ReluGrad {
  static TD_HD float Of(float y, float gy) { return y > 0.0f ? gy : 0.0f; }
};

struct Sigmoid {
  static TD_HD float Of(float x) { return 1.0f / (1.0f + Exp(-x)); }
};
struct SigmoidGrad {
  static TD_HD float Of(float y, float gy) { return gy * y * (1.0f - y); }
};

// The function tanh. For small arguments, tanh is computed as x P(x^2), where P is fitted to
// tanh(x) / x with the least relative error (6e-9). For other arguments, tanh is computed with exp.
struct Tanh {
  static TD_HD float Of(float x) {
    const float size = __builtin_fabsf(x), s = x * x;
    float p = -0.00546823354f;
    p = p * s + 0.0204151667f;
    p = p * s - 0.053665274f;
    p = p * s + 0.133304151f;
    p = p * s - 0.333332293f;
    const float small = x + x * s * p;
    const float large = 1.0f - 2.0f / (Exp(2.0f * size) + 1.0f);
    return size < 0.6f ? small : __builtin_copysignf(large, x);
  }
};
struct TanhGrad {
  static TD_HD float Of(float y, float gy) { return gy * (1.0f - y) * (1.0f + y); }
};

// The distribution function of the standard normal distribution (`below`), and its density times
// sqrt(2 pi). Both use the same exp. For x < 0 the distribution function is erfc(z) / 2 with z = -x
// / sqrt(2). erfc(z) exp(z^2) is approximated by a polynomial in t = 1 / (1 + 0.4 z), the form of
// Abramowitz and Stegun 7.1.26. The polynomial is fitted with the least relative error, 6e-8 for z
// < 9.5.
struct Normal {
  float below, density;

  static TD_HD Normal Of(float x) {
    const float t = 1.0f / (1.0f + 0.4f * 0.707106781f * __builtin_fabsf(x));
    float p = 0.040268506f;
    p = p * t - 0.135476099f;
    p = p * t + 0.0738527223f;
    p = p * t + 0.0997171955f;
    p = p * t + 0.071517079f;
    p = p * t + 0.19695919f;
    p = p * t + 0.200959593f;
    p = p * t + 0.226575564f;
    p = p * t + 0.225626307f;
    const float density = Exp(-0.5f * x * x);
    const float tail = 0.5f * density * p * t;
    return {x < 0.0f ? tail : 1.0f - tail, density};
  }
};

struct Gelu {
  static TD_HD float Of(float x) { return x * Normal::Of(x).below; }
};
struct GeluGrad {
  static TD_HD float Of(float x, float gy) {
    const float density_at_0 = 0.398942280f;  // the density at 0: 1 / sqrt(2 pi)
    const Normal normal = Normal::Of(x);
    return gy * (normal.below + x * density_at_0 * normal.density);
  }
};

// The form of gelu with tanh: gelu(x) = x (1 + tanh u) / 2 = x sigmoid(2 u).
struct GeluTanh {
  static TD_HD float TwoU(float x) { return 1.59576912f * (x + 0.044715f * x * x * x); }
  static TD_HD float Of(float x) { return x * Sigmoid::Of(TwoU(x)); }
};
struct GeluTanhGrad {
  static TD_HD float Of(float x, float gy) {
    const float s = Sigmoid::Of(GeluTanh::TwoU(x));
    const float slope = 1.59576912f * (1.0f + 3.0f * 0.044715f * x * x);
    return gy * (s + x * s * (1.0f - s) * slope);
  }
};

// ---- Pairs: Of(x, y) is the result, GradX and GradY are the gradients of x and y ----------------

struct Add {
  static TD_HD float Of(float x, float y) { return x + y; }
  static TD_HD float GradX(float, float, float g) { return g; }
  static TD_HD float GradY(float, float, float g) { return g; }
};
struct Sub {
  static TD_HD float Of(float x, float y) { return x - y; }
  static TD_HD float GradX(float, float, float g) { return g; }
  static TD_HD float GradY(float, float, float g) { return -g; }
};
struct Mul {
  static TD_HD float Of(float x, float y) { return x * y; }
  static TD_HD float GradX(float, float y, float g) { return g * y; }
  static TD_HD float GradY(float x, float, float g) { return x * g; }
};
struct Div {
  static TD_HD float Of(float x, float y) { return x / y; }
  static TD_HD float GradX(float, float y, float g) { return g / y; }
  static TD_HD float GradY(float x, float y, float g) { return -g * (x / y) / y; }
};
// The larger one of x and y. The result is NaN if x or y is NaN.
struct Max {
  static TD_HD float Of(float x, float y) {
    const float larger = x > y ? x : y;
    return x == x ? larger : x;
  }
  static TD_HD float GradX(float x, float y, float g) { return x > y ? g : 0.0f; }
  static TD_HD float GradY(float x, float y, float g) { return x > y ? 0.0f : g; }
};

}  // namespace
}  // namespace tandem::ops
