// What `tandem lint --memory` prints.
#pragma once

#include <string>

#include "common/base/status.h"
#include "deploy/cli/job_history.h"

namespace tandem::deploy {

// A table: for the program at each point of its making the sum of its temporaries, the peak (size
// of the arena, without and with what the memory passes of the strategy do), and the lower bound,
// the most that is alive at once; then what lives from step to step.
StatusOr<std::string> MemoryTable(const JobHistory& history);

}  // namespace tandem::deploy
