// Makes a copy of a program for evaluation instead of training.
#pragma once

#include "kernels/graph/program.h"

namespace tandem::graph {

// Returns a copy of a forward program for evaluation. The copy sets the attribute `is_test` of
// every operator that has this attribute. batch_norm then normalises with its running statistics
// and does not change them.
Program ForTest(Program program);

}  // namespace tandem::graph
