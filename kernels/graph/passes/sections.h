// The sections of a pipeline: a program cut in pieces of consecutive operators, of which each rank
// has one. Values flow to later sections in forward, gradients to earlier ones in backward.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem {

// How many sections the operators of a forward program name (kernels/graph/op_device.h); 0: none.
// INVALID_ARGUMENT when a number between is left out.
StatusOr<int> NamedSections(const Program& forward);

// Gives every operator of a forward program its section: the one that it names; without a name that
// of its latest input. A program without names is cut in `sections` pieces of about the same cost:
// operations, and bytes that are moved and sent. INVALID_ARGUMENT when the program names another
// number, or has fewer operators.
Status AssignSections(Program& forward, int sections);

// Gives every operator of a forward program section 1 where its op_device names `device` ("cpu" or
// "gpu"), and section 0 elsewhere: heter workers run the former. INVALID_ARGUMENT naming the
// operator that cannot be where it is: a lookup in a table of sparse rows under the guard, one
// without it that reads what an operator under it writes, or parameters of both; or when none is
// under it, or the loss is not.
Status AssignGuard(Program& forward, const std::string& device);

// A temporary of one section that another reads.
struct Crossing {
  std::string var;
  int from = 0, to = 0;
  bool forward = true;  // else a gradient
};

struct Sections {
  std::vector<int> of_op;            // by operator
  std::vector<Crossing> crossings;   // by the operator that wrote them last
  std::map<std::string, int> homes;  // of each parameter and state
};

// Of a program with backward, whose forward operators AssignSections has seen. INVALID_ARGUMENT
// naming variable and sections when a value would have to flow against the direction, or a
// parameter or state is used in several sections.
StatusOr<Sections> CutSections(const Program& program);

// True for what runs in backward; else in forward.
inline bool IsBackward(const Op& op) {
  return op.role == OpRole::kLoss || op.role == OpRole::kBackward;
}

}  // namespace tandem
