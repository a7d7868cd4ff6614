// The training program of a job at every point of its making, for commands that show it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "kernels/exec/memory_plan.h"
#include "kernels/graph/passes/pass.h"
#include "kernels/graph/program.h"
#include "trainer/job/job.h"
#include "trainer/modes/mode.h"

namespace tandem::deploy {

struct ProgramStages {
  std::string job;    // its name
  int64_t batch = 0;  // samples of a step on one rank
  // In order: "model", the passes, "autodiff", "distribute".
  std::vector<std::pair<std::string, Program>> points;
  std::vector<PassReport> passes;
  MemoryOptions memory;  // what the strategy asks for
  ModeOptions mode;
};

// Builds the programs of rank `rank` of `workers`, and of `heter_workers` behind them, in the job's
// mode. `overrides`: as flags would.
// Nobody is connected to.
StatusOr<ProgramStages> HistoryOf(const std::string& job_path, int workers,
                                  const Settings& overrides = {}, int rank = 0,
                                  int heter_workers = 0);

}  // namespace tandem::deploy
