// mode=hybrid with heter workers (tandemrun --heter_workers). The ranks with the highest numbers
// are heter workers. Each heter worker serves the same number of trainers. The program is
// partitioned into two stages, as for a pipeline. Operators under the device guard run on heter
// workers, and all other operators on trainers. A trainer pulls the rows of its batch, looks up
// the ids and sends the values to its heter worker. The heter worker computes the loss and the
// backward pass, and updates the dense parameters. Each trainer's batch is a micro batch of the
// heter worker. The heter worker returns the gradients of the values, and the trainer pushes the
// gradients of the rows. Dense parameters are reduced among the ranks of the same stage. Only
// trainers connect to pservers.
#pragma once

#include "trainer/modes/mode.h"
#include "trainer/modes/pipeline_mode.h"
#include "trainer/modes/pserver_mode.h"

namespace tandem::trainer {

struct HeterOptions {
  PserverOptions tables;  // options for the pservers; common.ranks counts the trainers only
  PipelineOptions sections;
};

HeterOptions HeterOptionsOf(const JobConfig& config, const RankInfo& rank,
                            const CommonOptions& common);

// Makes the mode. REQUIRES: the number of trainers is a multiple of the number of heter workers;
// RankFromEnv checks this.
StatusOr<TrainingMode> MakeHeterMode(const HeterOptions& options);

}  // namespace tandem::trainer
