// Passes: the changes of the program that a strategy selects. A table (pass.cc) lists the passes in
// the order in which they run. A pass has the name of its knob and finds the places of the program
// where the pass applies. The pass reports the number of these places, or why there are none.
// Passes know operators but no device.
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
}  // namespace tandem

namespace tandem::graph {

// The time at which a pass runs. kForward: before autodiff, on forward operators only; autodiff
// then makes the gradients of the changed operators. kBackward: after autodiff. kUpdate: after the
// mode has inserted communication and optimizer.
enum class PassStage : uint8_t { kForward, kBackward, kUpdate };

struct PassContext {
  const DistributedStrategy& strategy;
  std::vector<ParamGrad>& grads;  // parameters and their gradients; empty in stage kForward
  PlaceKind place;                // kind of device on which the program will run
};

struct PassOutcome {
  int64_t matched = 0;  // number of places where the pass changed the program
  std::string reason;   // why the pass did not apply, if `matched` is 0
};

struct Pass {
  const char* name;  // name of the knob; "knob.part" if the knob has several passes
  const char* doc;
  PassStage stage;
  bool (*asked)(const DistributedStrategy& strategy);
  StatusOr<PassOutcome> (*run)(Program& program, PassContext& context);
};

// Returns all passes in the order in which they run. This is Paddle's order: sequential execution,
// batch norm, fusions, grouped gradients, optimizer. Passes that need no gradients run before
// autodiff.
std::span<const Pass> AllPasses();

}  // namespace tandem::graph
