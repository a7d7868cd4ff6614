// Vector loops that convert between f32 and the 16-bit floats, with one version per instruction set
// as in loops.h. The results have the same bits, even for NaN, as those of F16ToF32, F32ToF16,
// BF16ToF32 and F32ToBF16 (common/tensor/types.h).
#pragma once

#include <cstdint>

namespace tandem::ops {

struct HalfLoops {
  using Widen = void (*)(const uint16_t* x, float* y, int64_t n);
  // Rounds f32 to 16 bits, to nearest even.
  using Round = void (*)(const float* x, uint16_t* y, int64_t n);
  Widen widen_f16, widen_bf16;
  Round round_f16, round_bf16;
};

// Returns the loops for the best instruction set of this machine.
const HalfLoops& BestHalfLoops();

}  // namespace tandem::ops
