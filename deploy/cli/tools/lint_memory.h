// The memory report of `tandem lint --memory`.
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"
#include "deploy/cli/tools/program_stages.h"

namespace tandem::deploy {

// The memory of a program at one point of its build: the bytes of the temporaries of a step.
struct MemoryRow {
  std::string point;
  size_t operators = 0, no_reuse = 0, peak = 0, lower_bound = 0;
};

struct MemoryReport {
  std::string job;
  int64_t batch = 0;  // number of samples of a step on one rank
  std::vector<MemoryRow> rows;
  size_t plan_bytes = 0;
  std::string plan_order;
  size_t parameter_bytes = 0, state_bytes = 0, data_bytes = 0;
};

// Computes the memory of the program at each point of its build. `peak` is the size of the arena,
// without and with the strategy's memory passes. `lower_bound` is the maximum of the bytes that are
// in use at the same time. `no_reuse` is the sum of the bytes of all temporaries. Also computes the
// bytes of variables that exist across steps.
StatusOr<MemoryReport> MemoryOf(const ProgramStages& history);

// Returns the report as a table.
std::string MemoryText(const MemoryReport& report);

}  // namespace tandem::deploy
