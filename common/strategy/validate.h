// Checks of a strategy against the job that it belongs to.
#pragma once

#include <string_view>

#include "common/strategy/diagnostics.h"
#include "common/strategy/origins.h"

namespace tandem {
class DistributedStrategy;
}  // namespace tandem

namespace tandem::strategy {

// The training mode. The values are equal to those of tandem.Mode (proto/job.proto).
enum class TrainMode { kLocal = 0, kPserver = 1, kCollective = 2, kHybrid = 3 };

// Returns "local", "pserver", "collective" or "hybrid".
std::string_view TrainModeName(TrainMode mode);

// The properties of a job that its strategy must match.
struct StrategyContext {
  TrainMode mode = TrainMode::kLocal;
  Origin mode_origin;  // origin of the value of `mode`
  int ranks = 0;       // number of trainers; 0: not yet known
};

// Adds an error for every changed knob that is not built yet, has no meaning in this mode, or
// contradicts another knob. Adds a note for a knob that only affects speed and has no effect in
// this mode. `path` is the path of the strategy in the root message, such as "strategy"; "" if the
// strategy is the root.
void ValidateStrategy(const DistributedStrategy& strategy, const StrategyContext& context,
                      const Origins& origins, std::string_view path, Diagnostics* diagnostics);

}  // namespace tandem::strategy
