#include "kernels/ops/cpu/update_loops.h"

#include <cstring>

#include "kernels/ops/cpu/loops.h"

namespace tandem::ops {

const UpdateLoops& BestUpdateLoops() {
  const char* isa = BestLoops().isa;
  if (std::strcmp(isa, "avx512") == 0) return kUpdateLoopsAvx512;
  return std::strcmp(isa, "avx2") == 0 ? kUpdateLoopsAvx2 : kUpdateLoopsBase;
}

}  // namespace tandem::ops
