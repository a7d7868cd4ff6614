// Finds the commit point of a program: the first operator after the last communication that writes
// a parameter or optimizer state. A plan with PlanOptions::commit waits for all communication
// before it runs that operator. If a peer is lost, the interrupted training step is then either
// applied completely or can be undone.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem::exec {

struct Commit {
  // Index of the first operator after the last communication that writes a persistent variable
  // (kParam, kState). If no operator does so, this is the number of operators.
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

// Returns the tables of which the program has only a copy (pull_rows). Each step pulls the rows
// that it needs before it reads them. Therefore writes to these tables do not count as writes of
// persistent variables.
std::set<std::string> CopiedTables(const graph::Program& program);

}  // namespace tandem::exec
