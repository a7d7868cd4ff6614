// The stages of a pipeline: partitions a program into runs of consecutive operators, one per rank.
// Values flow to later stages in forward; gradients flow to earlier stages in backward.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem {

// Returns the number of stages that the operators of a forward program name
// (kernels/graph/op_device.h); 0: none. INVALID_ARGUMENT: a number in between is missing.
StatusOr<int> NamedSections(const Program& forward);

// Assigns a stage to every operator of a forward program: the stage that it names, else the stage
// of its latest input. A program without names is partitioned into `sections` parts of about the
// same cost: operations, plus bytes moved and sent. INVALID_ARGUMENT: the program names another
// number of stages or has fewer operators.
Status AssignSections(Program& forward, int sections);

// Assigns stage 1 to every operator of a forward program that names `device` ("cpu" or "gpu") in
// op_device, else stage 0. Heter workers run stage 1. INVALID_ARGUMENT: no operator is under the
// guard, or the loss is not. INVALID_ARGUMENT, naming the operator: a lookup in a table of sparse
// rows is under the guard; or an operator outside the guard reads a value written under it; or a
// parameter is used on both sides.
Status AssignGuard(Program& forward, const std::string& device);

// A temporary of one stage that another stage reads.
struct Crossing {
  std::string var;
  int from = 0, to = 0;
  bool forward = true;  // false: a gradient
};

struct Sections {
  std::vector<int> of_op;            // indexed by operator
  std::vector<Crossing> crossings;   // ordered by the operator that wrote them last
  std::map<std::string, int> homes;  // stage of each parameter and state
};

// Returns the stages of a program with backward, after AssignSections on its forward operators.
// INVALID_ARGUMENT, naming the variable and the stages: a value would have to flow against the
// direction, or several stages use a parameter or state.
StatusOr<Sections> CutSections(const Program& program);

// Returns true if the operator runs in backward, false if in forward.
inline bool IsBackward(const Op& op) {
  return op.role == OpRole::kLoss || op.role == OpRole::kBackward;
}

}  // namespace tandem
