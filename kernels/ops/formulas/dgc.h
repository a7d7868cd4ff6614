// How the elements that deep gradient compression sends (dgc.cc) are found: the k-th largest of n
// magnitudes by digits, from the highest. Of the 31 bits of |x|, which order as |x| does (NaN above
// all), each level counts how often its digit has each value among those that share the higher
// digits. Exact for any data, without memory for candidates.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/ops/formulas/host_device.h"

namespace tandem {
namespace {

struct DgcLevel {
  int shift, bits;

  // Whether the digits above this level's are `higher`; `digit` becomes that of this level.
  TD_HD bool Digit(uint32_t magnitude, uint32_t higher, uint32_t* digit) const {
    const uint32_t digits = magnitude >> shift;
    *digit = digits & ((1U << bits) - 1);
    return digits >> bits == higher;
  }
};
constexpr int kDgcLevelCount = 3;
constexpr DgcLevel kDgcLevels[kDgcLevelCount] = {{20, 11}, {10, 10}, {0, 10}};
constexpr uint32_t kDgcDigitsMax = 1U << 11;

TD_HD uint32_t DgcMagnitude(float x) { return std::bit_cast<uint32_t>(x) & 0x7FFFFFFFU; }

// kernels/ops/update/dgc.h: SelectedOf.
TD_HD int64_t DgcSelectedOf(int64_t n, float sparsity) {
  const int64_t kept = llround(static_cast<double>(n) * (1.0 - static_cast<double>(sparsity)));
  return kept < 1 ? (n < 1 ? n : 1) : kept > n ? n : kept;
}

}  // namespace
}  // namespace tandem
