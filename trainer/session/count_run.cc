#include "trainer/session/count_run.h"

#include <fstream>
#include <sstream>

#include "common/base/check.h"
#include "kernels/graph/distribute/shard_params.h"
#include "kernels/graph/passes/amp.h"
#include "trainer/modes/state/scope_state.h"

namespace tandem::trainer {
namespace {

bool WritesHalf(const graph::Program& program, const ops::Op& op) {
  for (const auto& slot : op.outputs) {
    for (const std::string& name : slot) {
      const graph::Var* var = program.FindVar(name);
      if (var != nullptr && (var->desc.dtype == DType::kBF16 || var->desc.dtype == DType::kF16)) {
        return true;
      }
    }
  }
  return false;
}

// Counts the bytes of parameters and state in the scope, and the peak bytes of other ranks'
// parameters on this rank.
void CountHeld(const graph::Program& program, const exec::Scope& scope, ProgramCounts* counts) {
  double held = 0;
  for (const graph::VarKind kind : {graph::VarKind::kParam, graph::VarKind::kState}) {
    for (const graph::Var* var : program.VarsOf(kind)) {
      const Tensor* tensor = scope.Find(var->name);
      if (tensor != nullptr) held += static_cast<double>(tensor->bytes());
    }
  }
  counts->held_bytes = held;
  counts->passing_bytes = static_cast<double>(
      exec::LargestLive(program, exec::FindCommIntervals(program), graph::PassingParams(program)));
}

// Returns the largest resident memory of this process so far, in bytes. 0: the system does not
// report this size.
double PeakBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("VmHWM:")) continue;
    double kilobytes = 0;
    std::istringstream(line.substr(6)) >> kilobytes;
    return kilobytes * 1024;
  }
  return 0;
}

void Increment(Count* count) { *count = count->value_or(0) + 1; }

void CountProgram(const JobPrograms& programs, const exec::Plan& plan, ProgramCounts* counts) {
  for (const ops::Op& op : programs.train.ops) {
    Increment(&counts->ops);
    ++counts->ops_by_type[op.type];
    if (WritesHalf(programs.train, op)) Increment(&counts->ops_16bit);
    if (!op.run_if.empty()) Increment(&counts->ops_conditional);
  }
  for (const graph::PassReport& pass : programs.passes) {
    counts->passes[pass.name] += static_cast<double>(pass.outcome.matched);
  }
  for (const std::string& choice : plan.choices()) {
    ++counts->by_impl[choice.substr(choice.find(": ") + 2)];
  }
  counts->plan_threads = plan.num_threads();
  counts->plan_inplace = static_cast<double>(plan.memory().inplace.size());
  counts->arena_bytes = static_cast<double>(plan.memory().bytes);
  counts->arena_bytes_min = static_cast<double>(plan.memory().bytes_min);
}

}  // namespace

RunCounts CountsOf(const RunParts& parts) {
  DCHECK(parts.mode.steps != nullptr);
  RunCounts counts;
  CountProgram(parts.programs, parts.plan, &counts.program);
  CountHeld(parts.programs.train, parts.scope, &counts.program);
  if (parts.comm != nullptr) counts.comm = parts.comm->ByType();
  parts.mode.steps->AddCounts(&counts.mode);
  counts.runs = static_cast<double>(parts.history.runs());
  if (parts.executor.launches() > 0) {
    counts.device.launches = static_cast<double>(parts.executor.launches());
  }
  const auto card = parts.backend.Properties(parts.scope.device().place().index);
  const auto peak = card.ok() ? exec::PeakOf(*card) : card.status();
  if (peak.ok()) {
    counts.device.limit_ms =
        1e3 * exec::LeastSeconds(parts.plan.program(), *peak, parts.tensor_op_math);
  }
  counts.feed_bytes = static_cast<double>(parts.feed_bytes);
  counts.drops = static_cast<double>(parts.executor.drops());
  const Tensor* scale = parts.scope.Find(graph::kLossScalingVar);
  if (scale != nullptr) {
    const auto value = ReadScalar(parts.scope, *scale);
    if (value.ok()) counts.loss_scaling = *value;
  }
  counts.peak_bytes = PeakBytes();
  const DeviceMemoryCounts memory = parts.scope.device().memory_counts();
  if (memory.driver_calls > 0) {
    counts.device.driver_calls = static_cast<double>(memory.driver_calls);
    counts.device.driver_bytes = static_cast<double>(memory.driver_bytes);
    counts.device.used_bytes = static_cast<double>(memory.used_bytes);
  }
  return counts;
}

}  // namespace tandem::trainer
