// Where a step of training becomes lasting: the point in a program from which on it changes
// parameters and optimizer state by what all communication has brought. A plan that holds back
// these operators until all communication has ended (PlanOptions::commit) leaves a step that a lost
// peer broke off undone or done, never done in part.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "kernels/graph/program.h"

namespace tandem {

struct Commit {
  // The first operator behind the last communication that writes a lasting variable (kParam,
  // kState); the number of operators when there is none.
  int op = 0;
  // Lasting variables that operators before it write: running statistics, accumulators.
  std::vector<std::string> early;
  // Those that it or operators behind it write.
  std::vector<std::string> late;
  // Of the early ones those that no communication of the step has a part in: what a rank has made
  // of them once it has given all that it gives is what they are behind the step.
  std::vector<std::string> own;
};

Commit FindCommit(const Program& program);

// Tables of which the program has a copy alone (pull_rows): a step brings the rows that it needs up
// to date before it reads them, so they are nothing that a step makes lasting.
std::set<std::string> CopiedTables(const Program& program);

}  // namespace tandem
