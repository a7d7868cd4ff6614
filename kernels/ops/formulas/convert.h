// Conversion of numbers to integers, with the rules of cast.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/ops/formulas/host_device.h"

namespace tandem {
namespace {

// Rounds towards 0. Values outside To become the nearest value of To; NaN becomes 0.
template <typename To>
TD_HD To ToInteger(float x) {
  // The first numbers outside the type's range. f32 represents them exactly.
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
}  // namespace tandem
