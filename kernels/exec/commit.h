// Finds the commit point of a program. The commit point is the first operator that is after the
// last communication and writes a parameter or optimizer state. A plan with PlanOptions::commit
// waits for all communication before the commit point. Therefore a training step that the loss of a
// peer interrupts is either applied completely or can be undone.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem::exec {

struct Commit {
  // Index of the first operator that is after the last communication and writes a persistent
  // variable (kParam, kState). The number of operators, if there is no such operator.
  int op = 0;
  // Persistent variables, such as running statistics, that operators before `op` write.
  std::vector<std::string> early;
  // Persistent variables that operator `op` or a later operator writes.
  std::vector<std::string> late;
  // The variables of `early` that depend on no communication of the step. Their values are final as
  // soon as the rank has sent all its data of the step.
  std::vector<std::string> own;
};

Commit FindCommit(const graph::Program& program);

// Returns whether `op` receives rows with values of earlier steps from servers.
bool PullsRows(const ops::Op& op);

// Returns the tables of which this rank has only a copy. The operator pull_rows writes to this copy
// the rows that a step needs, before the step reads them. FindCommit does not count writes to such
// a table as writes of a persistent variable.
std::set<std::string> CopiedTables(const graph::Program& program);

}  // namespace tandem::exec
