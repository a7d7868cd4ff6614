// What the vector loops share; included by the code that is compiled once per instruction set,
// which says (loops_code.h) why everything here has internal linkage.
#pragma once

#include <cstdint>

#include "kernels/ops/formulas/host_device.h"

// Outputs may be the inputs, element by element, so there is nothing carried from one element to
// another; the compiler's own overlap check would send in-place calls to scalar code.
#if defined(__clang__)
#define TANDEM_VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define TANDEM_VECTOR_LOOP _Pragma("GCC ivdep")
#endif

namespace tandem {
namespace {

// exp by 2^k e^r, r in [-ln2/2, ln2/2], e^r by its Taylor polynomial of degree 7 (Cody and Waite's
// reduction, "Software Manual for the Elementary Functions", 1980, chapter 6).
[[maybe_unused]] TD_HD float Exp(float x) {
  const float clamped = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
  const float k = clamped * 1.44269504f + 12582912.0f - 12582912.0f;  // round to nearest
  const float r = clamped - k * 0.693359375f - k * -2.12194440e-4f;
  float e = 1.0f / 5040;
  e = e * r + 1.0f / 720;
  e = e * r + 1.0f / 120;
  e = e * r + 1.0f / 24;
  e = e * r + 1.0f / 6;
  e = e * r + 0.5f;
  e = e * r + 1.0f;
  e = e * r + 1.0f;
  const int32_t bits = (static_cast<int32_t>(k) + 127) << 23;
  float power;
  __builtin_memcpy(&power, &bits, sizeof(power));
  const float result = x < -87.0f ? 0.0f : e * power;
  return x == x ? result : x;  // NaN stays NaN
}

// A formula (formulas/activation.h) over contiguous elements.
template <typename Formula>
void UnaryLoop(const float* x, float* y, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = Formula::Of(x[i]);
}

template <typename Formula>
void PairLoop(const float* x, const float* y, float* out, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const float a = x[i], b = y[i];
    out[i] = Formula::Of(a, b);
  }
}

template <typename Formula>
void PairGradXLoop(const float* x, const float* y, const float* g, float* out, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const float a = x[i], b = y[i], c = g[i];
    out[i] = Formula::GradX(a, b, c);
  }
}

template <typename Formula>
void PairGradYLoop(const float* x, const float* y, const float* g, float* out, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const float a = x[i], b = y[i], c = g[i];
    out[i] = Formula::GradY(a, b, c);
  }
}

}  // namespace
}  // namespace tandem
