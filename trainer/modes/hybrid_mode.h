// mode=hybrid: the tables are on the pservers, and the trainers reduce the gradients of the dense
// parameters among themselves. This mode joins pserver mode and collective mode
// (tables_and_dense.h).
//
// If killed ranks can return, either all ranks complete a step or all ranks repeat the step,
// including the tables. Therefore the last reduction of a step starts after the servers have
// accepted this rank's rows. A rank that completed a step thus knows that the servers have all rows
// of the step. If no rank completed the step, all ranks repeat the step as new incarnations, and
// the servers discard the step's pushes. A server that already received all pushes of the step
// keeps the rows of the previous version too, and serves them. Such a server treats the repeated
// gradients as duplicates (pserver/shard/shard.h).
#pragma once

#include "common/base/status.h"
#include "trainer/modes/collective_mode.h"
#include "trainer/modes/mode.h"
#include "trainer/modes/pserver_mode.h"

namespace tandem::trainer {

struct HybridOptions {
  PserverOptions tables;
  CollectiveOptions dense;
};

HybridOptions HybridOptionsOf(const JobConfig& config, const RankInfo& rank,
                              const CommonOptions& common);

// Checks that hybrid mode, with or without heter workers, supports the job. UNIMPLEMENTED: hybrid
// mode does not support a setting of the job.
Status CheckHybrid(const JobConfig& config, const RankInfo& rank);

TrainingMode MakeHybridMode(const HybridOptions& options);

}  // namespace tandem::trainer
