// mode=collective with pipeline: with S stages, rank r runs stage r % S of replica r / S. The
// rank's program contains its work (kernels/graph/distribute/micro_batches.h); the mode does the
// communication. Hybrid mode with heter workers (heter_mode.h) has two stages of another form.
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
  int sections = 1;       // pipeline stages, each with its own ranks
  int micro_batches = 1;  // per batch of a pipeline
  // Not 0: the stages are kinds of ranks. The last ranks are heter workers.
  int heter_workers = 0;
  std::string device_guard;  // "cpu" or "gpu": the operators of this device run on heter workers
};

PipelineOptions PipelineOptionsOf(const JobConfig& config, const RankInfo& rank,
                                  CommonOptions common);

// INVALID_ARGUMENT: the number of ranks does not fit.
StatusOr<TrainingMode> MakePipelineMode(const PipelineOptions& options);

}  // namespace tandem::trainer
