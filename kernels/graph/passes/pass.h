// Passes: the program changes that a strategy asks for. A table (pass.cc) lists them in the order
// in which they run. A pass has the name of its knob and checks itself where it applies. It reports
// how often it applied, or why it never did. Passes know operators but no device.
#pragma once

#include <cstdint>
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

}  // namespace tandem
