// The training program of a job after each stage of its build, for commands that show the program.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "kernels/exec/memory_plan.h"
#include "kernels/graph/passes/pass_pipeline.h"
#include "kernels/graph/program.h"
#include "trainer/config/effective_job.h"
#include "trainer/modes/collective_mode.h"

namespace tandem::deploy {

struct ProgramStages {
  std::string job;    // name of the job
  int64_t batch = 0;  // number of samples of a step on one rank
  // The programs after each stage, in order: "model", the passes, "autodiff", "distribute".
  std::vector<std::pair<std::string, graph::Program>> points;
  std::vector<graph::PassReport> passes;
  exec::MemoryOptions memory;             // memory settings of the strategy
  trainer::CollectiveOptions collective;  // options of a job in collective mode
};

// Builds the programs of rank `rank` in the job's mode. The ranks are `workers` workers, followed
// by `heter_workers` heter workers. `overrides` are settings that replace those of the job file, as
// flags do. Opens no connection.
StatusOr<ProgramStages> HistoryOf(const std::string& job_path, int workers,
                                  const trainer::Settings& overrides = {}, int rank = 0,
                                  int heter_workers = 0);

}  // namespace tandem::deploy
