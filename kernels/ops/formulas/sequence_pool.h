// What sequence_pool multiplies the sum over a sequence by.
#pragma once

#include <cstdint>

#include "kernels/ops/formulas/host_device.h"
#include "kernels/ops/sequence_pool.h"

namespace tandem {
namespace {

// REQUIRES: length > 0.
TD_HD float SequencePoolScale(PoolType type, int64_t length) {
  const float n = static_cast<float>(length);
  if (type == PoolType::kAverage) return 1.0f / n;
  return type == PoolType::kSqrt ? 1.0f / __builtin_sqrtf(n) : 1.0f;
}

}  // namespace
}  // namespace tandem
