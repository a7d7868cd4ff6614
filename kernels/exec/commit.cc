#include "kernels/exec/commit.h"

#include "common/base/require.h"

namespace tandem::exec {

bool PullsRows(const ops::Op& op) { return op.type == "pull_rows" || op.type == "prefetch_rows"; }

std::set<std::string> CopiedTables(const graph::Program& program) {
  std::set<std::string> tables;
  for (const ops::Op& op : program.ops) {
    if (op.type != "pull_rows") continue;
    graph::ForEachWrite(op, [&](const std::string& name) { tables.insert(name); });
  }
  return tables;
}

Commit FindCommit(const graph::Program& program) {
  const int n = static_cast<int>(program.ops.size());
  const std::set<std::string> copies = CopiedTables(program);
  const auto lasting = [&](const ops::Op& op) {
    std::set<std::string> vars;
    graph::ForEachWrite(op, [&](const std::string& name) {
      const graph::VarKind kind = program.FindVar(name)->kind;
      const bool lasts = kind == graph::VarKind::kParam || kind == graph::VarKind::kState;
      if (lasts && !copies.contains(name)) vars.insert(name);
    });
    return vars;
  };
  Commit commit;
  for (int i = 0; i < n; ++i) {
    if (ops::FindOp(program.ops[i].type)->is_comm) commit.op = i + 1;
  }
  while (commit.op < n && lasting(program.ops[commit.op]).empty()) ++commit.op;
  TD_REQUIRE(commit.op >= 0 && commit.op <= n);
  std::set<std::string> early, late, received;
  for (int i = 0; i < n; ++i) {
    const ops::Op& op = program.ops[i];
    (i < commit.op ? early : late).merge(lasting(op));
    // Rows with values of earlier steps do not count as received in this step.
    bool receives = ops::FindOp(op.type)->is_comm && !PullsRows(op);
    graph::ForEachRead(op, [&](const std::string& name) { receives |= received.contains(name); });
    if (!receives) continue;
    graph::ForEachWrite(op, [&](const std::string& name) { received.insert(name); });
  }
  commit.early.assign(early.begin(), early.end());
  commit.late.assign(late.begin(), late.end());
  for (const std::string& name : early) {
    if (!late.contains(name) && !received.contains(name)) commit.own.push_back(name);
  }
  return commit;
}

}  // namespace tandem::exec
