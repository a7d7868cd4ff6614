// The tables that loops.cc chooses from. Each comes from a file of its own (loops_avx512.cc, ...)
// that includes loops_code.h and is compiled for its instruction set.
#pragma once

#include "kernels/ops/cpu/loops.h"

namespace tandem {

extern const Loops kLoopsBase, kLoopsAvx2, kLoopsAvx512;

}  // namespace tandem
