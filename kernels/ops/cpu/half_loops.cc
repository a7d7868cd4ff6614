#include "kernels/ops/cpu/half_loops.h"

#include <cstring>

#include "kernels/ops/cpu/half_loops_isa.h"
#include "kernels/ops/cpu/loops.h"

namespace tandem::ops {

const HalfLoops& BestHalfLoops() {
  const char* isa = BestLoops().isa;
  if (std::strcmp(isa, "avx512") == 0) return kHalfLoopsAvx512;
  return std::strcmp(isa, "avx2") == 0 ? kHalfLoopsAvx2 : kHalfLoopsBase;
}

}  // namespace tandem::ops
