// A stand-in for the part of CUDA's bfloat16 header that kernels/ops uses (see cuda_runtime.h).
#pragma once

#include "common/tensor/types.h"

struct __nv_bfloat16 {
  uint16_t bits;
};

inline float __bfloat162float(__nv_bfloat16 x) { return tandem::BF16ToF32(x.bits); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return {tandem::F32ToBF16(x)}; }
