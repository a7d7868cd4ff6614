// The training program of a job at every point of its build, for commands that show it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "kernels/exec/memory_plan.h"
#include "kernels/graph/passes/pass_pipeline.h"
#include "kernels/graph/program.h"
#include "trainer/job/job.h"
#include "trainer/modes/collective_mode.h"

namespace tandem::deploy {

struct ProgramStages {
  std::string job;    // the job's name
  int64_t batch = 0;  // samples of a step on one rank
  // In order: "model", the passes, "autodiff", "distribute".
  std::vector<std::pair<std::string, Program>> points;
  std::vector<PassReport> passes;
  MemoryOptions memory;                   // the strategy's settings
  trainer::CollectiveOptions collective;  // for a job in collective mode
};

// Builds the programs of rank `rank` in the job's mode. There are `workers` workers, then
// `heter_workers` heter workers. `overrides`: settings, like flags. Opens no connection.
StatusOr<ProgramStages> HistoryOf(const std::string& job_path, int workers,
                                  const trainer::Settings& overrides = {}, int rank = 0,
                                  int heter_workers = 0);

}  // namespace tandem::deploy
