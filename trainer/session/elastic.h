// Runs one process of an elastic job, whose ranks may change during the run (strategy elastic).
//
// The process has a different rank in each world (common/launcher/elastic_world.h), with separate
// programs, plans and shares of the data. Parameters and optimizer state stay in the memory of the
// process from one world to the next. Samples, dropout and learning rates depend only on the step
// number. The result of the job therefore does not depend on the changes of ranks.
#pragma once

#include <functional>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "trainer/config/effective_job.h"
#include "trainer/session/local_replicas.h"
#include "trainer/session/session.h"

namespace tandem::trainer {

// Makes and checks the effective job for a number of ranks, as LoadJob of trainer/job/job.h does.
using JobForRanks = std::function<StatusOr<EffectiveJob>(int ranks)>;

struct ElasticJob {
  JobForRanks load;
  // The options for LocalReplicas::Make. `options.rank` is the rank at the start of the process:
  // the process's number, the number of processes and the world file.
  SessionOptions options;
  ModeSecrets secrets;
  std::string event_dir;  // directory for rank 0's event files (event_file.h); empty: no files
};

struct ElasticResult {
  SessionResult result;
  bool leads = false;  // this process is rank 0 of the last world
};

// Checks that the job can run both with `rank.size` ranks and with the smallest number of ranks in
// the world file. UNIMPLEMENTED: a setting forbids a change of ranks; the message names this
// setting. INVALID_ARGUMENT: the job is invalid.
Status CheckElastic(const JobForRanks& load, const JobConfig& config, const RankInfo& rank);

// Trains in one world after another until the job ends. The first members of a world train: as many
// as the job can be divided among. The other members wait until they are needed. The result is
// empty if this process did not train when the job ended. Otherwise the result and the errors are
// those of LocalReplicas::Run.
StatusOr<ElasticResult> RunElastic(const ElasticJob& job, StopSwitch& stop, const Clock& clock);

}  // namespace tandem::trainer
