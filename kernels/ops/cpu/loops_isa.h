// The tables of loops, one per instruction set, from which loops.cc chooses. Each table is in its
// own file (loops_avx512.cc, ...), which includes loops_code.h and is compiled for its instruction
// set.
#pragma once

#include "kernels/ops/cpu/loops.h"

namespace tandem::ops {

extern const Loops kLoopsBase, kLoopsAvx2, kLoopsAvx512;

}  // namespace tandem::ops
