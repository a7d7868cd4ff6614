#include "kernels/exec/commit.h"

#include <set>

namespace tandem {

Commit FindCommit(const Program& program) {
  const int n = static_cast<int>(program.ops.size());
  const auto lasting = [&](const Op& op) {
    std::set<std::string> vars;
    ForEachWrite(op, [&](const std::string& name) {
      const VarKind kind = program.FindVar(name)->kind;
      if (kind == VarKind::kParam || kind == VarKind::kState) vars.insert(name);
    });
    return vars;
  };
  Commit commit;
  for (int i = 0; i < n; ++i) {
    if (FindOp(program.ops[i].type)->is_comm) commit.op = i + 1;
  }
  while (commit.op < n && lasting(program.ops[commit.op]).empty()) ++commit.op;
  std::set<std::string> early, late;
  for (int i = 0; i < n; ++i) (i < commit.op ? early : late).merge(lasting(program.ops[i]));
  commit.early.assign(early.begin(), early.end());
  commit.late.assign(late.begin(), late.end());
  return commit;
}

}  // namespace tandem
