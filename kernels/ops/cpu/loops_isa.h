// The tables from which loops.cc chooses. Each is in a separate file (loops_avx512.cc, ...) that
// includes loops_code.h and is compiled for its instruction set.
#pragma once

#include "kernels/ops/cpu/loops.h"

namespace tandem {

extern const Loops kLoopsBase, kLoopsAvx2, kLoopsAvx512;

}  // namespace tandem
