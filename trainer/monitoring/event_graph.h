// A program as TensorBoard draws it: TensorFlow's GraphDef (proto/event.proto).
#pragma once

#include <string>

#include "kernels/graph/program.h"

namespace tandem {

// A GraphDef in its binary form: a node for each operator and for each variable that lies there
// before the first one (parameters, state, data). An edge leads from the last writer of a variable,
// in program order, and says the variable's shape. Nodes of a layer are one group: what
// reads "fc_0.w" or writes "fc_0.out" is in "fc_0".
std::string ToGraphDef(const Program& program);

}  // namespace tandem
