// The tables of loops, one per instruction set, from which half_loops.cc chooses (see loops_isa.h).
#pragma once

#include "kernels/ops/cpu/half_loops.h"

namespace tandem::ops {

extern const HalfLoops kHalfLoopsBase, kHalfLoopsAvx2, kHalfLoopsAvx512;

}  // namespace tandem::ops
