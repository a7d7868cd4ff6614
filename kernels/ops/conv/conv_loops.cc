#include "kernels/ops/conv/conv_loops.h"

#include <cstring>

#include "kernels/ops/cpu/loops.h"

namespace tandem::ops {

const ConvLoops& BestConvLoops() {
  const char* isa = BestLoops().isa;
  if (std::strcmp(isa, "avx512") == 0) return kConvLoopsAvx512;
  return std::strcmp(isa, "avx2") == 0 ? kConvLoopsAvx2 : kConvLoopsBase;
}

}  // namespace tandem::ops
