// Runs the passes that a strategy selects and reports what each pass changed.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/graph/passes/pass.h"

namespace tandem::graph {

struct PassReport {
  std::string name;
  PassOutcome outcome;
  size_t operators_before = 0, operators_after = 0;
  double milliseconds = 0;
  bool by_default = false;  // true: a pass that runs by default and whose knob the user did not set
};

// Receives the program at a named point: "model", "autodiff", "distribute", or the name of the pass
// that has just run. If the observer returns an error, the program is not built.
using ProgramObserver = std::function<Status(std::string_view point, const Program& program)>;

// Runs the passes that the strategy selects. Not thread-safe.
class PassPipeline {
 public:
  // `strategy` must outlive this object. `observer` may be empty.
  PassPipeline(const DistributedStrategy& strategy, ProgramObserver observer,
               PlaceKind place = PlaceKind::kCpu)
      : strategy_(strategy), observer_(std::move(observer)), place_(place) {}

  // Runs the passes of one stage and verifies the program after each pass. INTERNAL, naming the
  // pass: the program is invalid after the pass.
  Status Run(PassStage stage, Program& program, std::vector<ParamGrad>& grads);
  Status Observe(std::string_view point, const Program& program) const;
  std::vector<PassReport> TakeReports() { return std::move(reports_); }

 private:
  Status RunOne(const Pass& pass, Program& program, std::vector<ParamGrad>& grads);

  const DistributedStrategy& strategy_;
  const ProgramObserver observer_;
  const PlaceKind place_;
  std::vector<PassReport> reports_;
};

// Returns one line per pass: "pass fuse_all_optimizer_ops: 1 place, 43 -> 34 operators, 0.1 ms" or
// "pass x: no place: the reason". Passes that run by default and changed nothing are omitted.
std::string ReportText(std::span<const PassReport> reports);

}  // namespace tandem::graph
