// Conversion of floating-point numbers to integers, with the rules of the operator cast.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/ops/formulas/host_device.h"

namespace tandem::ops {
namespace {

// Rounds x towards 0. A value outside the range becomes the nearest value of To. NaN becomes 0.
template <typename To>
TD_HD To ToInteger(float x) {
  // The smallest number above the type's range. f32 represents it exactly.
  constexpr float kEnd = -2.0f * static_cast<float>(std::numeric_limits<To>::min() / 2);
  constexpr float kTop = std::is_signed_v<To> ? kEnd : 256.0f;
  constexpr To kLow = std::numeric_limits<To>::min(), kHigh = std::numeric_limits<To>::max();
  if (x != x) return 0;
  if (x >= kTop) return kHigh;
  return x <= static_cast<float>(kLow) ? kLow : static_cast<To>(x);
}

template <typename To>
TD_HD To ToInteger(int64_t x) {
  constexpr int64_t kLow = std::numeric_limits<To>::min(), kHigh = std::numeric_limits<To>::max();
  return static_cast<To>(x < kLow ? kLow : x > kHigh ? kHigh : x);
}

}  // namespace
}  // namespace tandem::ops
