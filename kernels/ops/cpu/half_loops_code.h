// The code of the loops of half_loops.h. Each half_loops_<isa>.cc includes this file once.
// loops_code.h explains why these files share no functions.
#ifndef TANDEM_LOOPS
#error "include this from half_loops_<isa>.cc alone"
#endif
#include "kernels/ops/cpu/half_loops_isa.h"
#include "kernels/ops/cpu/vector_code.h"

namespace tandem::ops {
namespace {

inline float FloatOf(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}
inline uint32_t BitsOf(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

void WidenBF16(const uint16_t* x, float* y, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) y[i] = FloatOf(static_cast<uint32_t>(x[i]) << 16);
}

void RoundBF16(const float* x, uint16_t* y, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t u = BitsOf(x[i]);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const uint32_t nan = (u >> 16) | 0x40u;
    y[i] = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

// Exponents are biased by 15 (f16) and 127 (f32). Mantissas have 10 and 23 bits. Subnormal numbers
// are computed as a difference of normal numbers, because processors are slow with subnormal f32.
void WidenF16(const uint16_t* x, float* y, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t h = x[i], sign = (h & 0x8000u) << 16, magnitude = (h & 0x7fffu) << 13;
    const uint32_t normal = magnitude + (112u << 23);
    const uint32_t small = BitsOf(FloatOf(magnitude + (113u << 23)) - FloatOf(113u << 23));
    const uint32_t quiet = (h & 0x3ffu) != 0 ? 0x7fc00000u : 0x7f800000u;
    const uint32_t finite = magnitude < (1u << 23) ? small : normal;
    y[i] = FloatOf(sign | ((h & 0x7c00u) == 0x7c00u ? quiet | magnitude : finite));
  }
}

void RoundF16(const float* x, uint16_t* y, int64_t n) {
  TANDEM_VECTOR_LOOP
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = BitsOf(x[i]), magnitude = bits & 0x7fffffffu;
    const uint32_t sign = (bits >> 16) & 0x8000u;
    const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    // Adding 2^-1 moves the 10 rounded bits of a subnormal number to the end of the mantissa.
    const uint32_t small = BitsOf(FloatOf(magnitude) + 0.5f) - 0x3f000000u;
    const uint32_t normal = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    const uint32_t finite = magnitude < 0x38800000u ? small : normal;
    const uint32_t large = magnitude > 0x7f800000u ? nan : 0x7c00u;
    y[i] = static_cast<uint16_t>(sign | (magnitude >= 0x47800000u ? large : finite));
  }
}

}  // namespace

const HalfLoops TANDEM_LOOPS = {
    .widen_f16 = WidenF16,
    .widen_bf16 = WidenBF16,
    .round_f16 = RoundF16,
    .round_bf16 = RoundBF16,
};

}  // namespace tandem::ops
