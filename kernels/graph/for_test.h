// The evaluation form of a program.
#pragma once

#include "kernels/graph/program.h"

namespace tandem {

// A forward program as it is evaluated: sets the attribute `is_test` of every operator that has it
// (batch_norm then normalises by its running statistics and leaves them as they are).
Program ForTest(Program program);

}  // namespace tandem
