// The tables that half_loops.cc chooses from (see loops_isa.h).
#pragma once

#include "kernels/ops/cpu/half_loops.h"

namespace tandem {

extern const HalfLoops kHalfLoopsBase, kHalfLoopsAvx2, kHalfLoopsAvx512;

}  // namespace tandem
