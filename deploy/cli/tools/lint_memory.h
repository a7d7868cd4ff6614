// The output of `tandem lint --memory`.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/cli/tools/program_stages.h"

namespace tandem::deploy {

// A point in the build of a program, in bytes of the temporaries of a step.
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

// Computes for each point in the build of the program: the sum of the temporaries; the peak, which
// is the size of the arena, without and with the strategy's memory passes; and the lower bound, the
// most bytes alive at once. Also computes the bytes that live across steps.
StatusOr<MemoryReport> MemoryOf(const ProgramStages& history);

// The report as a table.
std::string MemoryText(const MemoryReport& report);

}  // namespace tandem::deploy
