#include "kernels/ops/cpu/loops.h"

#include "kernels/ops/cpu/loops_isa.h"

namespace tandem::ops {

const Loops& BestLoops() {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) {
    return kLoopsAvx512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return kLoopsAvx2;
  return kLoopsBase;
}

}  // namespace tandem::ops
