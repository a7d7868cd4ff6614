#include "kernels/graph/passes/fuse_optimizer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "kernels/graph/passes/fused.h"
#include "kernels/graph/passes/rewrite.h"

namespace tandem::graph {
namespace {

// Type and condition, which must be equal for all operators of one fused operator.
using Group = std::pair<std::string, std::string>;

// Returns true if the operator updates its parameter element by element and its gradient is dense.
bool Fits(const Program& program, const ops::Op& op) {
  const ops::OpDef* def = ops::FindOp(op.type);
  if (op.role != ops::OpRole::kOptimize || !def->elementwise) return false;
  const bool sparse =
      std::string_view(def->inputs.back().name) == "Rows" && !op.inputs.back().empty();
  if (sparse) return false;
  const Shape& shape = program.FindVar(op.outputs[0][0])->desc.shape;
  bool fits = true;
  const auto check = [&](const std::string& name) {
    const Shape& other = program.FindVar(name)->desc.shape;
    fits &= other == shape || other.numel() == 1;
  };
  ForEachRead(op, check);
  ForEachWrite(op, check);
  return fits;
}

}  // namespace

StatusOr<PassOutcome> FuseOptimizer(Program& program, PassContext&) {
  std::map<Group, std::vector<size_t>> groups;
  int64_t updates = 0;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const ops::Op& op = program.ops[i];
    updates += op.role == ops::OpRole::kOptimize ? 1 : 0;
    if (Fits(program, op)) groups[{op.type, op.run_if}].push_back(i);
  }
  std::vector<bool> gone(program.ops.size());
  PassOutcome outcome;
  for (auto& [group, members] : groups) {
    const size_t last = members.back();
    std::erase_if(members, [&](size_t i) { return !CanMove(program, i, last); });
    if (members.size() < 2) continue;
    TD_ASSIGN_OR_RETURN(ops::Op fused, FuseElementwise(program, members));
    TD_RETURN_IF_ERROR(ReplaceOp(program, last, std::move(fused)));
    for (const size_t i : members) gone[i] = i != last;
    ++outcome.matched;
  }
  RemoveOps(program, gone);
  if (outcome.matched == 0) {
    outcome.reason = updates == 0 ? "the program updates no parameter (pservers do)"
                     : groups.empty()
                         ? "the optimizer is not elementwise: it reads complete parameters"
                         : "there is only one update";
  }
  return outcome;
}

}  // namespace tandem::graph
