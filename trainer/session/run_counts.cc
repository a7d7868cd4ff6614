#include "trainer/session/run_counts.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "kernels/graph/passes/amp.h"
#include "kernels/graph/passes/shard_params.h"

namespace tandem::trainer {
namespace {

bool WritesHalf(const Program& program, const Op& op) {
  for (const auto& slot : op.outputs) {
    for (const std::string& name : slot) {
      const Var* var = program.FindVar(name);
      if (var != nullptr && (var->desc.dtype == DType::kBF16 || var->desc.dtype == DType::kF16)) {
        return true;
      }
    }
  }
  return false;
}

// Counts parameters and state: the held bytes, and the peak of the passing bytes.
void CountHeld(const Program& program, const Scope& scope, RunCounts* counts) {
  double held = 0;
  for (const VarKind kind : {VarKind::kParam, VarKind::kState}) {
    for (const Var* var : program.VarsOf(kind)) {
      const Tensor* tensor = scope.Find(var->name);
      if (tensor != nullptr) held += static_cast<double>(tensor->bytes());
    }
  }
  (*counts)["held_bytes"] = held;
  (*counts)["passing_bytes"] =
      static_cast<double>(LargestLive(program, FindCommIntervals(program), PassingParams(program)));
}

// Largest resident memory of this process so far, in bytes; 0: the system does not report it.
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

void CountProgram(const JobPrograms& programs, const Plan& plan, RunCounts* counts) {
  RunCounts& c = *counts;
  for (const Op& op : programs.train.ops) {
    ++c["ops"];
    ++c["ops." + op.type];
    if (WritesHalf(programs.train, op)) ++c["ops.16bit"];
    if (!op.run_if.empty()) ++c["ops.conditional"];
  }
  for (const PassReport& pass : programs.passes) {
    c["passes." + pass.name] += static_cast<double>(pass.outcome.matched);
  }
  for (const std::string& choice : plan.choices()) {
    ++c["plan." + choice.substr(choice.find(": ") + 2)];
  }
  c["plan.threads"] = plan.num_threads();
  c["plan.inplace"] = static_cast<double>(plan.memory().inplace.size());
  c["arena_bytes"] = static_cast<double>(plan.memory().bytes);
  c["arena_bytes_min"] = static_cast<double>(plan.memory().bytes_min);
}

}  // namespace

StatusOr<int> CountingComm::Register(const CommNode& node) {
  TD_ASSIGN_OR_RETURN(const int index, inner_.Register(node));
  nodes_.resize(std::max(nodes_.size(), static_cast<size_t>(index) + 1));
  Node& own = nodes_[static_cast<size_t>(index)];
  own.type = node.op->type;
  for (const CommTensor& tensor : node.out) own.bytes += static_cast<double>(tensor.desc.bytes());
  return index;
}

void CountingComm::Start(int index, int64_t step, CommDone* done) {
  ++nodes_[static_cast<size_t>(index)].started;
  inner_.Start(index, step, done);
}

void CountingComm::AddTo(RunCounts* counts) const {
  for (const Node& node : nodes_) {
    const auto started = static_cast<double>(node.started);
    (*counts)["comm"] += started;
    (*counts)["comm." + node.type] += started;
    (*counts)["comm_out_bytes." + node.type] += started * node.bytes;
  }
}

RunCounts CountsOf(const RunParts& parts) {
  RunCounts counts;
  CountProgram(parts.programs, parts.plan, &counts);
  CountHeld(parts.programs.train, parts.scope, &counts);
  if (parts.comm != nullptr) parts.comm->AddTo(&counts);
  parts.mode.AddCounts(&counts);
  counts["runs"] = static_cast<double>(parts.history.runs());
  if (parts.executor.launches() > 0) {
    counts["device.launches"] = static_cast<double>(parts.executor.launches());
  }
  const auto card = parts.backend.Properties(parts.scope.device().place().index);
  const auto peak = card.ok() ? PeakOf(*card) : card.status();
  if (peak.ok()) {
    counts["device.limit_ms"] =
        1e3 * LeastSeconds(parts.plan.program(), *peak, parts.tensor_op_math);
  }
  counts["feed_bytes"] = static_cast<double>(parts.feed_bytes);
  counts["drops"] = static_cast<double>(parts.executor.drops());
  const Tensor* scale = parts.scope.Find(kLossScalingVar);
  if (scale != nullptr) {
    const auto value = ReadScalar(parts.scope, *scale);
    if (value.ok()) counts["loss_scaling"] = *value;
  }
  counts["peak_bytes"] = PeakBytes();
  const DeviceMemoryCounts memory = parts.scope.device().memory_counts();
  if (memory.driver_calls > 0) {
    counts["device.driver_calls"] = static_cast<double>(memory.driver_calls);
    counts["device.driver_bytes"] = static_cast<double>(memory.driver_bytes);
    counts["device.used_bytes"] = static_cast<double>(memory.used_bytes);
  }
  return counts;
}

}  // namespace tandem::trainer
