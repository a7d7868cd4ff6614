// Passes: the changes of a program that a strategy asks for, in a table in the order in which they
// run (passes.cc). Each is named like its knob, checks for itself where it applies, and says how
// often it did, or why it never did. Passes know operators and no device.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/graph/autodiff.h"
#include "kernels/graph/program.h"

namespace tandem {

class DistributedStrategy;

// When a pass runs: with the forward operators alone (gradients of what it writes come from
// autodiff), behind autodiff, or behind the mode's communication and optimizer.
enum class PassStage : uint8_t { kForward, kBackward, kUpdate };

struct PassContext {
  const DistributedStrategy& strategy;
  std::vector<ParamGrad>& grads;  // empty in kForward
  PlaceKind place;                // where the program will run
};

struct PassOutcome {
  int64_t matched = 0;  // places where it changed the program
  std::string reason;   // when there were none: why
};

struct Pass {
  const char* name;  // its knob; of several passes of one knob "knob.part"
  const char* doc;
  PassStage stage;
  bool (*asked)(const DistributedStrategy& strategy);
  StatusOr<PassOutcome> (*run)(Program& program, PassContext& context);
};

// All passes in their order: that of the reference (sequential execution, batch norm, fusions,
// grouped gradients, optimizer), with what needs no gradient before autodiff.
std::span<const Pass> AllPasses();

struct PassReport {
  std::string name;
  PassOutcome outcome;
  size_t operators_before = 0, operators_after = 0;
  double milliseconds = 0;
  bool by_default = false;  // nobody set its knob
};

// Sees a program at a named point: "model", "autodiff", "distribute", or behind the pass of that
// name. An error ends the building of the program.
using ProgramObserver = std::function<Status(std::string_view point, const Program& program)>;

// Runs the passes that the strategy asks for. Not thread-safe.
class PassPipeline {
 public:
  // `strategy` must outlive this. `observer` may be empty.
  PassPipeline(const DistributedStrategy& strategy, ProgramObserver observer,
               PlaceKind place = PlaceKind::kCpu)
      : strategy_(strategy), observer_(std::move(observer)), place_(place) {}

  // The passes of one stage; the program is verified behind each. INTERNAL, naming the pass, when
  // it leaves a program that is none.
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

// One line per pass: "pass fuse_all_optimizer_ops: 1 place, 43 -> 34 operators, 0.1 ms" or
// "pass x: no place: the reason". Passes that nobody asked for and that found nothing are left out.
std::string ReportText(std::span<const PassReport> reports);

}  // namespace tandem
