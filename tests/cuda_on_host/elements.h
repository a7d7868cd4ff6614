// Loads and stores elements of tensors of several types, for the loops that replace CUDA's
// libraries.
#pragma once

#include "common/tensor/types.h"

namespace tandem::cuda_on_host {

// Converts a library's type name to a DType: `half` is f16, `brain` is bf16, every other name is
// f32.
template <typename Name>
DType TypeOf(Name name, Name half, Name brain) {
  return name == half ? DType::kF16 : name == brain ? DType::kBF16 : DType::kF32;
}

inline float Load(DType type, const void* at, int64_t i) {
  if (type == DType::kF32) return static_cast<const float*>(at)[i];
  const uint16_t bits = static_cast<const uint16_t*>(at)[i];
  return type == DType::kF16 ? F16ToF32(bits) : BF16ToF32(bits);
}

inline void Store(DType type, void* at, int64_t i, float value) {
  if (type == DType::kF32) {
    static_cast<float*>(at)[i] = value;
  } else {
    static_cast<uint16_t*>(at)[i] = type == DType::kF16 ? F32ToF16(value) : F32ToBF16(value);
  }
}

}  // namespace tandem::cuda_on_host
