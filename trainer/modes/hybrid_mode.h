// mode=hybrid: tables are on the pservers, and dense parameters are reduced among the trainers in
// the same step. It joins pserver mode and collective mode (tables_and_dense.h).
// If killed ranks can return, a step must complete on all ranks or be repeated on all ranks,
// including the tables. So the last reduction of a step starts after the servers have accepted this
// rank's rows. A rank that completed a step therefore knows that the servers have all rows of the
// step.
// If no rank completed the step, all repeat it as new incarnations, and the servers discard what
// they have of the step. A server that had already received all of it serves the rows of the
// previous version, which it keeps. It treats the same gradients as duplicates
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

// Checks a job of mode hybrid, with heter workers too. UNIMPLEMENTED: it has a setting that the
// mode does not support.
Status CheckHybrid(const JobConfig& config, const RankInfo& rank);

TrainingMode MakeHybridMode(const HybridOptions& options);

}  // namespace tandem::trainer
