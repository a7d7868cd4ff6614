// Finds the commit point of a program: the first operator after the last communication that writes
// a parameter or optimizer state. Plans with PlanOptions::commit run no such operator before all
// communication has ended. A training step that a lost peer interrupts is then either applied
// completely or can be undone.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem {

struct Commit {
  // The first operator after the last communication that writes a persistent variable (kParam,
  // kState). The number of operators if there is none.
  int op = 0;
  // Persistent variables that operators before `op` write: running statistics, accumulators.
  std::vector<std::string> early;
  // Persistent variables that `op` and later operators write.
  std::vector<std::string> late;
  // The variables of `early` that depend on no communication of the step. They have their final
  // values of the step as soon as the rank has sent all its data.
  std::vector<std::string> own;
};

Commit FindCommit(const Program& program);

// Returns tables of which the program has only a copy (pull_rows). A step updates the rows that it
// needs before reading them, so a step does not make them persistent.
std::set<std::string> CopiedTables(const Program& program);

}  // namespace tandem
