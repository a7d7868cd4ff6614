// Passes: the program changes that a strategy asks for. A table (passes.cc) lists them in the order
// in which they run. A pass has the name of its knob and checks itself where it applies. It reports
// how often it applied, or why it never did. Passes know operators but no device.
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

// When a pass runs. kForward: on the forward operators only; autodiff makes the gradients of the
// operators that the pass writes. kBackward: after autodiff. kUpdate: after the communication and
// the optimizer of the mode.
enum class PassStage : uint8_t { kForward, kBackward, kUpdate };

struct PassContext {
  const DistributedStrategy& strategy;
  std::vector<ParamGrad>& grads;  // empty in kForward
  PlaceKind place;                // where the program will run
};

struct PassOutcome {
  int64_t matched = 0;  // number of places where the pass changed the program
  std::string reason;   // the reason, if `matched` is 0
};

struct Pass {
  const char* name;  // its knob; for several passes of one knob "knob.part"
  const char* doc;
  PassStage stage;
  bool (*asked)(const DistributedStrategy& strategy);
  StatusOr<PassOutcome> (*run)(Program& program, PassContext& context);
};

// Returns all passes in order. The order is that of the reference (sequential execution, batch
// norm, fusions, grouped gradients, optimizer). Passes that need no gradients run before autodiff.
std::span<const Pass> AllPasses();

struct PassReport {
  std::string name;
  PassOutcome outcome;
  size_t operators_before = 0, operators_after = 0;
  double milliseconds = 0;
  bool by_default = false;  // the user did not set the knob
};

// Receives the program at a named point: "model", "autodiff", "distribute", or the name of the pass
// that just ran. An error stops the building of the program.
using ProgramObserver = std::function<Status(std::string_view point, const Program& program)>;

// Runs the passes that the strategy asks for. Not thread-safe.
class PassPipeline {
 public:
  // `strategy` must outlive this object. `observer` may be empty.
  PassPipeline(const DistributedStrategy& strategy, ProgramObserver observer,
               PlaceKind place = PlaceKind::kCpu)
      : strategy_(strategy), observer_(std::move(observer)), place_(place) {}

  // Runs the passes of one stage and verifies the program after each. INTERNAL, naming the pass:
  // the pass left an invalid program.
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
// "pass x: no place: the reason". Omits passes that run by default and matched nothing.
std::string ReportText(std::span<const PassReport> reports);

}  // namespace tandem
