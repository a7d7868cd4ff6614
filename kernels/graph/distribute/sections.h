// Pipeline stages: assigns the operators of a program to stages, one stage per rank. Values flow to
// later stages in forward. Gradients flow to earlier stages in backward.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem::graph {

// Returns the number of stages in a forward program, from the stages that its operators name
// (kernels/graph/op_device.h). 0: no operator names a stage. INVALID_ARGUMENT: an operator names
// stage k, but no operator names some stage below k.
StatusOr<int> NamedSections(const Program& forward);

// Assigns a stage to every operator of a forward program: the stage that the operator names, or
// otherwise the latest stage from which the operator reads. A program that names no stages is
// partitioned into `sections` stages of about the same cost. The cost is the number of operations,
// plus bytes moved and sent. INVALID_ARGUMENT: the program names another number of stages or has
// fewer operators than stages.
Status AssignSections(Program& forward, int sections);

// Assigns the operators of a forward program to two stages. An operator whose op_device is `device`
// ("cpu" or "gpu") gets stage 1, which heter workers run. All other operators get stage 0.
// INVALID_ARGUMENT: no operator is in stage 1, or the loss or a metric is computed in stage 0.
// INVALID_ARGUMENT, naming the operator: a lookup in a table of sparse rows is in stage 1; or an
// operator of stage 0 reads a value of stage 1; or both stages use a parameter.
Status AssignGuard(Program& forward, const std::string& device);

// A temporary that one stage writes and another stage reads.
struct Crossing {
  std::string var;
  int from = 0, to = 0;
  bool forward = true;  // true: a value of forward; false: a gradient
};

struct Sections {
  std::vector<int> of_op;            // by operator: its stage
  std::vector<Crossing> crossings;   // in the order of the last writers of the variables
  std::map<std::string, int> homes;  // by name of a parameter or state: its stage
};

// Returns the stages of all operators of a program with backward. AssignSections must have assigned
// its forward operators. INVALID_ARGUMENT, naming the variable and the stages: a forward value
// would flow to an earlier stage, or several stages use a parameter or state.
StatusOr<Sections> CutSections(const Program& program);

// Returns true if the operator belongs to backward, false if it belongs to forward.
inline bool IsBackward(const ops::Op& op) {
  return op.role == ops::OpRole::kLoss || op.role == ops::OpRole::kBackward;
}

}  // namespace tandem::graph
