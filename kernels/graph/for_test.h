// Makes the evaluation form of a program.
#pragma once

#include "kernels/graph/program.h"

namespace tandem {

// Returns a forward program in its evaluation form: sets the attribute `is_test` of every operator
// that has it. batch_norm then normalises with its running statistics and does not change them.
Program ForTest(Program program);

}  // namespace tandem
