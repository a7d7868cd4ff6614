// Converts a program to TensorFlow's GraphDef (proto/event.proto), for TensorBoard.
#pragma once

#include <string>

#include "kernels/graph/program.h"

namespace tandem::trainer {

// Returns the GraphDef of `program` in binary form. The graph has a node for each operator, and a
// node for each variable that exists before the first operator (parameters, state, data). An edge
// leads from the operator that wrote a variable last to an operator that reads the variable, and
// has the variable's shape. The nodes of a layer form a group: operators that read "fc_0.w" or
// write "fc_0.out" are in "fc_0".
std::string ToGraphDef(const graph::Program& program);

}  // namespace tandem::trainer
