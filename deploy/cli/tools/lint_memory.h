// What `tandem lint --memory` prints.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/cli/tools/program_stages.h"

namespace tandem::deploy {

// One point of a program's making, in bytes of the temporaries of a step.
struct MemoryRow {
  std::string point;
  size_t operators = 0, no_reuse = 0, peak = 0, lower_bound = 0;
};

struct MemoryReport {
  std::string job;
  int64_t batch = 0;  // samples of a step on one rank
  std::vector<MemoryRow> rows;
  size_t plan_bytes = 0;
  std::string plan_order;
  size_t parameter_bytes = 0, state_bytes = 0, data_bytes = 0;
};

// For the program at each point of its making the sum of its temporaries, the peak (size
// of the arena, without and with what the memory passes of the strategy do), and the lower bound,
// the most that is alive at once; then what lives from step to step.
StatusOr<MemoryReport> MemoryOf(const ProgramStages& history);

// As a table.
std::string MemoryText(const MemoryReport& report);

}  // namespace tandem::deploy
