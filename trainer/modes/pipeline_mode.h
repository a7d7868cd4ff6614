// mode=collective with pipeline. With S stages, rank r runs stage r % S of replica r / S. The
// rank's program contains the operators of its stage (kernels/graph/distribute/micro_batches.h).
// The mode executes the communication between ranks. Hybrid mode with heter workers (heter_mode.h)
// uses this mode with two stages: stage 0 on the trainers, stage 1 on the heter workers.
#pragma once

#include <string>

#include "common/base/status.h"
#include "trainer/modes/common_options.h"
#include "trainer/modes/mode.h"
#include "trainer/modes/rank_world.h"

namespace tandem::trainer {

struct PipelineOptions {
  CommonOptions common;
  WorldOptions world;
  int sections = 1;       // number of pipeline stages; each stage runs on its own ranks
  int micro_batches = 1;  // number of micro batches in a batch
  // Number of heter workers, which are the last ranks. If the number is not 0, the trainers run
  // stage 0 and the heter workers run stage 1.
  int heter_workers = 0;
  std::string device_guard;  // "cpu" or "gpu": operators for this device run on heter workers
};

PipelineOptions PipelineOptionsOf(const JobConfig& config, const RankInfo& rank,
                                  CommonOptions common);

// Makes the mode. INVALID_ARGUMENT: the number of ranks is not a multiple of the number of stages.
StatusOr<TrainingMode> MakePipelineMode(const PipelineOptions& options);

}  // namespace tandem::trainer
