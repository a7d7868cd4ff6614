#include "kernels/ops/cpu/math_loops.h"

#include <cstring>

#include "kernels/ops/cpu/loops.h"

namespace tandem::ops {

const MathLoops& BestMathLoops() {
  const char* isa = BestLoops().isa;
  if (std::strcmp(isa, "avx512") == 0) return kMathLoopsAvx512;
  return std::strcmp(isa, "avx2") == 0 ? kMathLoopsAvx2 : kMathLoopsBase;
}

}  // namespace tandem::ops
