// The exponential function for activations, softmax and losses.
#pragma once

#include <cstdint>

#include "kernels/ops/formulas/host_device.h"

namespace tandem::ops {
namespace {

// Computes exp as 2^k e^r with r in [-ln2/2, ln2/2], and e^r by its Taylor polynomial of degree 7.
// Source: Cody and Waite's reduction, "Software Manual for the Elementary Functions", 1980, chapter
// 6.
[[maybe_unused]] TD_HD float Exp(float x) {
  // The order of the comparisons maps NaN to -87, because NaN cannot be converted to an integer.
  const float clamped = x >= -87.0f ? (x > 88.0f ? 88.0f : x) : -87.0f;
  // Rounds clamped / ln2 to the nearest integer.
  const float k = clamped * 1.44269504f + 12582912.0f - 12582912.0f;
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
  return x == x ? result : x;  // returns x itself if x is NaN
}

}  // namespace
}  // namespace tandem::ops
