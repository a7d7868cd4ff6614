// Typed access to the arguments of a CPU kernel.
#pragma once

#include "kernels/ops/core/op.h"

namespace tandem::ops {

inline const float* InF32(const KernelArgs& args, int i) {
  return static_cast<const float*>(args.in[i]);
}
inline float* OutF32(const KernelArgs& args, int i) { return static_cast<float*>(args.out[i]); }

}  // namespace tandem::ops
