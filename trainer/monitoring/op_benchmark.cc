#include "trainer/monitoring/op_benchmark.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "kernels/graph/passes/rewrite.h"

namespace tandem::trainer {
namespace {

// Returns the first and the last operator that uses each temporary.
std::map<std::string, std::pair<size_t, size_t>> LivesOf(const graph::Program& program) {
  std::map<std::string, std::pair<size_t, size_t>> lives;
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const auto touch = [&](const std::string& name) {
      if (program.FindVar(name)->kind != graph::VarKind::kTemp) return;
      lives.try_emplace(name, i, i).first->second.second = i;
    };
    graph::ForEachRead(program.ops[i], touch);
    graph::ForEachWrite(program.ops[i], touch);
  }
  return lives;
}

}  // namespace

OpBenchmark::OpBenchmark(const exec::Plan& plan)
    : plan_(plan), written_(plan.program().ops.size()), alive_(plan.program().ops.size()) {
  const graph::Program& program = plan.program();
  for (size_t i = 0; i < program.ops.size(); ++i) {
    graph::ForEachWrite(program.ops[i], [&](const std::string& name) {
      written_[i] += program.FindVar(name)->desc.bytes();
    });
  }
  for (const auto& [name, life] : LivesOf(program)) {
    DCHECK_LE(life.first, life.second);
    const size_t bytes = program.FindVar(name)->desc.bytes();
    for (size_t i = life.first; i <= life.second; ++i) alive_[i] += bytes;
  }
  rows_.reserve(plan.steps().size());
}

Status OpBenchmark::BeforeStep(const exec::PlanStep&, int64_t) { return WaitForDevice(); }

Status OpBenchmark::OnStep(const exec::PlanStep& step, int64_t, Time begin, Time end) {
  if (plan_.device() != nullptr) {
    TD_RETURN_IF_ERROR(WaitForDevice());
    end = SteadyNow();
  }
  const char* what = step.comm_start >= 0 ? "start " : step.comm_wait >= 0 ? "wait for " : "";
  rows_.push_back({step.op, what, Seconds(end - begin)});
  return OkStatus();
}

std::string OpBenchmark::TakeText() {
  std::string text;
  double seconds = 0;
  size_t alive_max = 0;
  for (const Row& row : rows_) {
    const auto i = static_cast<size_t>(row.op);
    DCHECK_LT(i, alive_.size());
    seconds += row.seconds;
    alive_max = std::max(alive_max, alive_[i]);
    text += absl::StrFormat("  #%d %s%s: %.3f ms, %.3f MB written, %.3f MB alive\n", row.op,
                            row.what, plan_.program().ops[i].type, row.seconds * 1e3,
                            static_cast<double>(written_[i]) / 1e6,
                            static_cast<double>(alive_[i]) / 1e6);
  }
  text += absl::StrFormat("  %d operators: %.3f ms, at most %.3f MB alive\n", rows_.size(),
                          seconds * 1e3, static_cast<double>(alive_max) / 1e6);
  rows_.clear();
  return text;
}

}  // namespace tandem::trainer
