#include "kernels/ops/norm/norm_loops.h"

#include <cstring>

#include "kernels/ops/cpu/loops.h"

namespace tandem::ops {

const NormLoops& BestNormLoops() {
  const char* isa = BestLoops().isa;
  if (std::strcmp(isa, "avx512") == 0) return kNormLoopsAvx512;
  return std::strcmp(isa, "avx2") == 0 ? kNormLoopsAvx2 : kNormLoopsBase;
}

}  // namespace tandem::ops
