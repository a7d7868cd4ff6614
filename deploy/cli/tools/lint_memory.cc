#include "deploy/cli/tools/lint_memory.h"

#include "absl/strings/str_format.h"

namespace tandem::deploy {
namespace {

StatusOr<exec::MemoryPlan> PlanAt(const graph::Program& program,
                                  const exec::MemoryOptions& options) {
  std::vector<std::string> fetch = program.metrics;
  if (!program.loss.empty()) fetch.push_back(program.loss);
  return exec::PlanMemory(program, exec::FindCommIntervals(program), fetch, options);
}

MemoryRow RowOf(const std::string& point, const graph::Program& program,
                const exec::MemoryPlan& plan) {
  return {point, program.ops.size(), plan.bytes_sum, plan.bytes, plan.bytes_min};
}

size_t BytesOf(const graph::Program& program, graph::VarKind kind) {
  size_t bytes = 0;
  for (const graph::Var* var : program.VarsOf(kind)) bytes += var->desc.bytes();
  return bytes;
}

}  // namespace

StatusOr<MemoryReport> MemoryOf(const ProgramStages& history) {
  MemoryReport report{.job = history.job, .batch = history.batch};
  // A plan is made at each point, as if the program were complete there. The effect of a pass is
  // the difference to the previous row.
  for (const auto& [point, program] : history.points) {
    TD_ASSIGN_OR_RETURN(const exec::MemoryPlan plan, PlanAt(program, {}));
    report.rows.push_back(RowOf(point, program, plan));
  }
  const graph::Program& last = history.points.back().second;
  exec::MemoryOptions options;
  if (history.memory.inplace) {
    options.inplace = true;
    TD_ASSIGN_OR_RETURN(const exec::MemoryPlan plan, PlanAt(last, options));
    report.rows.push_back(
        RowOf(absl::StrFormat("enable_inplace (%d places)", plan.inplace.size()), last, plan));
  }
  if (!history.memory.reuse && history.memory.eager_delete_bytes != 0) {
    TD_ASSIGN_OR_RETURN(const exec::MemoryPlan plan, PlanAt(last, history.memory));
    report.rows.push_back(RowOf("memory_optimize, eager deletion", last, plan));
  }
  TD_ASSIGN_OR_RETURN(const exec::MemoryPlan plan, PlanAt(last, history.memory));
  report.plan_bytes = plan.bytes;
  report.plan_order = plan.order;
  report.parameter_bytes = BytesOf(last, graph::VarKind::kParam);
  report.state_bytes = BytesOf(last, graph::VarKind::kState);
  report.data_bytes = BytesOf(last, graph::VarKind::kData);
  return report;
}

std::string MemoryText(const MemoryReport& report) {
  std::string text = absl::StrFormat(
      "# %s: bytes of the temporaries of a step of %d samples on one rank\n%-34s "
      "%9s %15s %15s %15s\n",
      report.job, report.batch, "after", "operators", "no reuse", "peak", "lower bound");
  for (const MemoryRow& row : report.rows) {
    text += absl::StrFormat("%-34s %9d %15d %15d %15d\n", row.point, row.operators, row.no_reuse,
                            row.peak, row.lower_bound);
  }
  text += absl::StrFormat("memory plan: %d bytes, packed in order of %s\n", report.plan_bytes,
                          report.plan_order);
  text += absl::StrFormat("in addition: parameters %d bytes, state %d bytes, data %d bytes\n",
                          report.parameter_bytes, report.state_bytes, report.data_bytes);
  return text;
}

}  // namespace tandem::deploy
