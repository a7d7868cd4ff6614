// 16-bit elements for code that is compiled at run time, where CUDA's own headers may be missing.
// Conversions use the instructions of __half2float, __float2half_rn and similar functions.
#pragma once

#include <cstdint>

namespace tandem::ops {
namespace {

struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

template <typename T>
struct Element;  // converts between T and f32, rounding to nearest even

template <>
struct Element<float> {
  static __device__ float Wide(float x) { return x; }
  static __device__ float Narrow(float x) { return x; }
};

template <>
struct Element<F16> {
  static __device__ float Wide(F16 x) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
    return wide;
  }
  static __device__ F16 Narrow(float x) {
    F16 narrow;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(x));
    return narrow;
  }
};

template <>
struct Element<BF16> {
  static __device__ float Wide(BF16 x) { return __int_as_float(static_cast<int>(x.bits) << 16); }
  static __device__ BF16 Narrow(float x) {
    BF16 narrow;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(x));
    return narrow;
  }
};

}  // namespace
}  // namespace tandem::ops
