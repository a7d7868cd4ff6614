// Selects the elements that deep gradient compression sends (dgc.cc). The k-th largest of n
// magnitudes is found digit by digit, highest digit first. The 31 bits of |x| have the same order
// as |x|, with NaN above all numbers. Each level reads one digit of the elements whose higher
// digits equal those of the k-th largest magnitude, and counts how often each value of this digit
// occurs. The result is exact for any data, and no memory for candidates is needed.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/ops/formulas/host_device.h"

namespace tandem::ops {
namespace {

struct DgcLevel {
  int shift, bits;

  // Returns true if the digits of `magnitude` above this level equal `higher`. Sets *digit to the
  // digit of this level.
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

// Returns the number of elements that are sent. Implements SelectedOf of kernels/ops/update/dgc.h.
TD_HD int64_t DgcSelectedOf(int64_t n, float sparsity) {
  const int64_t kept = llround(static_cast<double>(n) * (1.0 - static_cast<double>(sparsity)));
  return kept < 1 ? (n < 1 ? n : 1) : kept > n ? n : kept;
}

}  // namespace
}  // namespace tandem::ops
