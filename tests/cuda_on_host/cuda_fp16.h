// A stand-in for the part of CUDA's header of 16-bit floats that kernels/ops uses (see
// cuda_runtime.h).
#pragma once

#include "common/tensor/types.h"

struct __half {
  uint16_t bits;
};

inline float __half2float(__half x) { return tandem::F16ToF32(x.bits); }
inline __half __float2half_rn(float x) { return {tandem::F32ToF16(x)}; }
