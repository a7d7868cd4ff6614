// mode=hybrid with heter workers (tandemrun --heter_workers). The ranks with the highest numbers
// are heter workers. Each heter worker serves an equal number of trainers. The program is
// partitioned into two stages, as for a pipeline. Heter workers run the operators under the device
// guard, and trainers run all other operators. A trainer pulls the rows of its batch, looks up the
// ids and sends the values to its heter worker. The heter worker computes the loss and the backward
// pass, and updates the dense parameters. For the heter worker, each trainer's batch is a micro
// batch. The heter worker returns the gradients of the values, and the trainer pushes the gradients
// of the rows. Ranks of the same stage sum the gradients of dense parameters. Only trainers connect
// to pservers.
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
