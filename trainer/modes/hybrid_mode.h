// mode=hybrid: the tables are on the pservers, and the trainers reduce the gradients of the dense
// parameters among themselves. This mode joins pserver mode and collective mode
// (tables_and_dense.h).
//
// If killed ranks can return, either all ranks complete a step or all ranks repeat the step,
// including the tables. Therefore the last reduction of a step starts after the servers have
// accepted this rank's rows. A rank that completed a step thus knows that the servers have all rows
// of the step.
//
// If no rank completed the step, every rank, also one that was not killed, connects to the servers
// as a new incarnation and repeats the step. A server that lacks a push of the step discards the
// pushes of the step. A server that has all pushes of the step has already applied the step. Such a
// server serves the rows of the previous version for the repetition, and treats the repeated
// gradients as duplicates (pserver/shard/push_gate.cc).
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
