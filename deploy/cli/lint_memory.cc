#include "deploy/cli/lint_memory.h"

#include "absl/strings/str_format.h"

namespace tandem::deploy {
namespace {

StatusOr<MemoryPlan> PlanAt(const Program& program, const MemoryOptions& options) {
  std::vector<std::string> fetch = program.metrics;
  if (!program.loss.empty()) fetch.push_back(program.loss);
  return PlanMemory(program, FindFlights(program), fetch, options);
}

std::string Row(const std::string& point, const Program& program, const MemoryPlan& plan) {
  return absl::StrFormat("%-34s %9d %15d %15d %15d\n", point, program.ops.size(), plan.bytes_sum,
                         plan.bytes, plan.bytes_min);
}

size_t BytesOf(const Program& program, VarKind kind) {
  size_t bytes = 0;
  for (const Var* var : program.VarsOf(kind)) bytes += var->desc.bytes();
  return bytes;
}

}  // namespace

StatusOr<std::string> MemoryTable(const JobHistory& history) {
  std::string text = absl::StrFormat(
      "# %s: bytes of the temporaries of a step of %d samples on one rank\n%-34s "
      "%9s %15s %15s %15s\n",
      history.job, history.batch, "behind", "operators", "no reuse", "peak", "lower bound");
  // Each as if it were the last: what a pass gains or costs is the difference to the row before.
  for (const auto& [point, program] : history.points) {
    TD_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanAt(program, {}));
    text += Row(point, program, plan);
  }
  const Program& last = history.points.back().second;
  MemoryOptions options;
  if (history.memory.inplace) {
    options.inplace = true;
    TD_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanAt(last, options));
    text += Row(absl::StrFormat("enable_inplace (%d places)", plan.inplace.size()), last, plan);
  }
  if (!history.memory.reuse && history.memory.eager_delete_bytes != 0) {
    TD_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanAt(last, history.memory));
    text += Row("memory_optimize, eager deletion", last, plan);
  }
  TD_ASSIGN_OR_RETURN(const MemoryPlan plan, PlanAt(last, history.memory));
  text += absl::StrFormat("the plan: %d bytes, packed in order of %s\n", plan.bytes, plan.order);
  text += absl::StrFormat("besides: parameters %d bytes, state %d, data %d\n",
                          BytesOf(last, VarKind::kParam), BytesOf(last, VarKind::kState),
                          BytesOf(last, VarKind::kData));
  return text;
}

}  // namespace tandem::deploy
