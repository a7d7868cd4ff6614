// The types of sequence_pool, and the factor by which each type multiplies the sum over a sequence.
#pragma once

#include <cstdint>

#include "kernels/ops/formulas/host_device.h"

namespace tandem::ops {

enum class PoolType : uint8_t { kSum, kAverage, kSqrt, kMax, kFirst, kLast };

namespace {

// Returns the factor for the sum over a sequence of `length` elements. REQUIRES: length > 0.
TD_HD float SequencePoolScale(PoolType type, int64_t length) {
  const float n = static_cast<float>(length);
  if (type == PoolType::kAverage) return 1.0f / n;
  return type == PoolType::kSqrt ? 1.0f / __builtin_sqrtf(n) : 1.0f;
}

}  // namespace
}  // namespace tandem::ops
