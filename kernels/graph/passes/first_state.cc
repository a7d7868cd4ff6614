#include "kernels/graph/passes/first_state.h"

#include "kernels/graph/passes/rewrite.h"
#include "proto/strategy.pb.h"

namespace tandem::graph {
namespace {

std::vector<std::string> StateOfForward(const Program& program) {
  std::vector<std::string> found;
  for (const ops::Op& op : program.ops) {
    if (op.role != ops::OpRole::kForward) continue;
    ForEachWrite(op, [&](const std::string& name) {
      const Var& var = *program.FindVar(name);
      if (var.kind == VarKind::kState && var.saved) found.push_back(name);
    });
  }
  return found;
}

ops::Op Copy(const std::string& from, const std::string& to, const std::string& run_if) {
  return {.type = "sum",
          .inputs = {{from}},
          .outputs = {{to}},
          .role = ops::OpRole::kBackward,
          .run_if = run_if};
}

}  // namespace

StatusOr<PassOutcome> KeepFirstState(Program& program, PassContext& context) {
  const std::vector<std::string> state = StateOfForward(program);
  if (state.empty()) return PassOutcome{0, "the forward pass has no state"};
  // The condition holds in parts 1, 1 + n, 1 + 2n and so on: the first part of each batch.
  TD_ASSIGN_OR_RETURN(const std::string first,
                      InsertEveryNth(program, 0, "first_state",
                                     {context.strategy.batch_merge_repeats()}, 1, false));
  for (const std::string& name : state) {
    const std::string kept = name + "@FIRST";
    TD_RETURN_IF_ERROR(program.AddVar({.name = kept,
                                       .kind = VarKind::kState,
                                       .desc = program.FindVar(name)->desc,
                                       .saved = false}));
    TD_RETURN_IF_ERROR(AppendOp(program, Copy(name, kept, first)));
    TD_RETURN_IF_ERROR(AppendOp(program, Copy(kept, name, "")));
  }
  return PassOutcome{static_cast<int64_t>(state.size()), ""};
}

}  // namespace tandem::graph
