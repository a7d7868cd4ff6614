// mode=hybrid: tables are on the pservers, and dense parameters are reduced among the trainers in
// the same step. This mode joins pserver mode and collective mode (tables_and_dense.h). If killed
// ranks can return, a step must complete on all ranks or be repeated on all ranks, including the
// tables. Therefore the last reduction of a step starts after the servers have accepted this rank's
// rows. Thus a rank that completed a step knows that the servers have all rows of the step. If no
// rank completed the step, all ranks repeat it as new incarnations, and the servers discard the
// step's pushes. A server that had already received all pushes of the step keeps the rows of the
// previous version and serves them. Such a server treats the repeated gradients as duplicates
// (pserver/shard/shard.h).
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

// Checks the job of a hybrid mode, with or without heter workers. UNIMPLEMENTED: the job has a
// setting that hybrid mode does not support.
Status CheckHybrid(const JobConfig& config, const RankInfo& rank);

TrainingMode MakeHybridMode(const HybridOptions& options);

}  // namespace tandem::trainer
